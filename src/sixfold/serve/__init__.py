"""Translation over HTTP: a web page, and the APIs that clients of LibreTranslate and DeepL already use.

A request passes the `middleware` (API keys, size limits, rate limits, deadline) and reaches one of three APIs
(`libretranslate`, `deepl`, `web_page`). `service` splits its text into sentences, which enter the queue of their
model (`batching`), where the sentences of several requests are batched. A worker process translates each batch:
`worker_pool` is the server's side of it, `serve_job` the worker's.
"""
