// OpenAI's API as a stream: yields the parts of the one text that is asked for.

const MAX_ATTEMPTS = 4; // while the server is busy

export async function* stream(path, fields, signal, showStatus) {
  const response = await answered(path, { ...fields, stream: true, return_token_ids: true }, signal, showStatus);
  for await (const record of records(response.body)) {
    if (record.error) throw new Error(record.error.message);
    const [choice] = record.choices;
    if (choice) {
      yield {
        text: choice.text ?? choice.delta.content ?? "",
        tokens: choice.logprobs?.content ?? [],
        prompt: choice.prompt_token_ids ?? null,
        finished: choice.finish_reason,
      };
    }
  }
}

async function answered(path, fields, signal, showStatus) {
  for (let attempt = 1; ; attempt += 1) {
    const response = await fetch(path, {
      method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(fields), signal,
    }).catch((error) => {
      throw signal.aborted ? error : new Error("The server does not respond.");
    });
    if (response.ok) return response;
    const { error } = await response.json();
    const seconds = Number(response.headers.get("retry-after"));
    if (!seconds || attempt === MAX_ATTEMPTS) throw new Error(error.message);
    showStatus("The server is busy. Retrying …");
    await new Promise((resolve) => setTimeout(resolve, 1000 * seconds));
    signal.throwIfAborted();
  }
}

// The JSON of each server-sent event.
async function* records(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let unread = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) throw new Error("The server ended the connection.");
    unread += value;
    const events = unread.split("\n\n");
    unread = events.pop();
    for (const event of events) {
      if (event === "data: [DONE]") return;
      yield JSON.parse(event.slice("data: ".length));
    }
  }
}
