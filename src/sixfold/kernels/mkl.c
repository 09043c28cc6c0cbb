/* The function that MKL calls before it chooses its kernels; mkl.py says why it returns true. */

int sixfold_times_asked = 0;

int mkl_serv_intel_cpu_true(void)
{
    sixfold_times_asked++;
    return 1;
}
