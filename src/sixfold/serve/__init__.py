"""Models over HTTP: web pages, and the APIs of LibreTranslate, DeepL and OpenAI.

A request passes the `middleware` (API keys, size limits, rate limits, deadline) and reaches an API
(`libretranslate`, `deepl`, `web_page`, `openai_routes`). `translation` splits text into sentences, which are
queued and batched with those of other requests (`batching`); `generation` passes prompts to the least busy worker.
Worker processes do the work: `worker_pool` is the server's side of them, `serve_job` theirs.
"""
