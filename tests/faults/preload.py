"""What the processes of the fault tests have imported before they begin, the kernels prepared as a user's are."""

from sixfold.kernels import prepare

prepare()  # before torch is loaded, or else an AMD processor would multiply in another order than the parent

import sacrebleu  # noqa: E402, F401
import torch._dynamo  # noqa: E402, F401

import sixfold.training.run  # noqa: E402, F401
