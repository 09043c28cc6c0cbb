"""Translation over HTTP: a web page, and the interfaces that clients of LibreTranslate and DeepL already speak.

A request passes the gate (`gate`: who may ask, how much, for how long), is read as one of three interfaces
(`libretranslate`, `deepl`, `page`), becomes sentences (`sixfold.text`), waits in the queue of its model
(`batching`) and is translated, together with others, by a process of its own (`pool` here, `worker` there).
"""
