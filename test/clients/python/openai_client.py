"""OpenAI's own package for Python, unchanged."""

import io
import json

from openai import APIError, AsyncOpenAI, OpenAI
from pydantic import BaseModel
from scenarios import GATEWAY_KEY, GATEWAY_URL, described, fault, raised, run_scenarios, scenario

NATIVE = "openai/simulated-small"
TRANSLATED = "llamacpp/simulated-small"
BOTH = (TRANSLATED, NATIVE)

client = OpenAI(base_url=f"{GATEWAY_URL}/v1", api_key=GATEWAY_KEY, max_retries=0)
HELLO = [{"role": "user", "content": "Reply with exactly: hello"}]
PARAMETERS = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]}},
    "required": ["city", "unit"],
    "additionalProperties": False,
}
CHAT_TOOL = {"type": "function", "function": {"name": "get_weather", "description": "The weather in a city", "parameters": PARAMETERS}}
TOOL = {"type": "function", "name": "get_weather", "description": "The weather in a city", "strict": True, "parameters": PARAMETERS}


class Place(BaseModel):
    city: str
    inhabitants: int


@scenario(*BOTH)
def chat(model):
    raw = client.chat.completions.with_raw_response.create(model=model, messages=HELLO)
    answer = raw.parse()
    return {
        "text": answer.choices[0].message.content,
        "finish": answer.choices[0].finish_reason,
        "usage": answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens,
        "request_id": raw.headers.get("x-request-id"),
    }


@scenario(*BOTH)
def chat_stream(model):
    texts, usage, finish = [], None, None
    stream = client.chat.completions.create(
        model=model, messages=HELLO, stream=True, stream_options={"include_usage": True}
    )
    for chunk in stream:
        usage = chunk.usage or usage
        for choice in chunk.choices:
            texts.append(choice.delta.content or "")
            finish = choice.finish_reason or finish
    return {"text": "".join(texts), "finish": finish, "tokens": usage.completion_tokens}


@scenario(*BOTH)
def chat_tool_loop(model):
    messages = [{"role": "user", "content": "What is the weather in Paris and Rome?"}]
    with client.chat.completions.stream(model=model, messages=messages, tools=[CHAT_TOOL]) as stream:
        for _ in stream:
            pass
        message = stream.get_final_completion().choices[0].message
    messages.append(message.model_dump(exclude_none=True))
    for call in message.tool_calls:
        city = json.loads(call.function.arguments)["city"]
        messages.append({"role": "tool", "tool_call_id": call.id, "content": f"sunny in {city}"})
    answer = client.chat.completions.create(model=model, messages=messages, tools=[CHAT_TOOL])
    return {"calls": len(message.tool_calls), "text": answer.choices[0].message.content}


@scenario(*BOTH)
def chat_parse(model):
    messages = [{"role": "user", "content": "Tell me of Oslo"}]
    whole = client.chat.completions.parse(model=model, messages=messages, response_format=Place)
    with client.chat.completions.stream(model=model, messages=messages, response_format=Place) as stream:
        streamed = stream.get_final_completion()
    place = whole.choices[0].message.parsed
    return {"type": type(place).__name__, "same": place == streamed.choices[0].message.parsed}


@scenario(*BOTH)
def response(model):
    answer = client.responses.create(model=model, input="Reply with exactly: hello", instructions="Obey.")
    return {"text": answer.output_text, "status": answer.status, "tokens": answer.usage.output_tokens}


@scenario(*BOTH)
def response_stream(model):
    types, text = [], ""
    for event in client.responses.create(model=model, input="Reply with exactly: hello", stream=True):
        types.append(event.type)
        if event.type == "response.output_text.delta":
            text += event.delta
    return {"text": text, "first": types[0], "last": types[-1]}


@scenario(*BOTH)
def response_tool_loop(model):
    question = [{"role": "user", "content": "Think: what is the weather in Paris and Rome?"}]
    with client.responses.stream(model=model, input=question, tools=[TOOL]) as stream:
        for _ in stream:
            pass
        first = stream.get_final_response()
    calls = [item for item in first.output if item.type == "function_call"]
    outputs = [
        {"type": "function_call_output", "call_id": call.call_id, "output": f"sunny in {json.loads(call.arguments)['city']}"}
        for call in calls
    ]
    # What came out goes back in, as Python's users do it; and by the id of the response.
    whole = client.responses.create(model=model, input=[*question, *first.output, *outputs], tools=[TOOL])
    by_id = client.responses.create(model=model, input=outputs, previous_response_id=first.id, tools=[TOOL])
    return {"types": [item.type for item in first.output], "whole": whole.output_text, "by_id": by_id.output_text}


@scenario(*BOTH)
def response_mcp(model):
    mcp = {"type": "mcp", "server_label": "sky", "server_url": "gateway://weather"}
    question = "What is the weather in Paris?"
    with client.responses.stream(model=model, input=question, tools=[{**mcp, "require_approval": "never"}]) as stream:
        for _ in stream:
            pass
        made = stream.get_final_response()
    asked = client.responses.create(model=model, input=question, tools=[mcp])
    wanted = next(item for item in asked.output if item.type == "mcp_approval_request")
    approval = {"type": "mcp_approval_response", "approval_request_id": wanted.id, "approve": True}
    approved = client.responses.create(model=model, input=[approval], previous_response_id=asked.id, tools=[mcp])
    return {
        "types": [type(item).__name__ for item in made.output],
        "output": made.output[1].output,
        "text": made.output_text,
        "approved": approved.output_text,
    }


@scenario(*BOTH)
def response_parse(model):
    whole = client.responses.parse(model=model, input="Tell me of Oslo", text_format=Place)
    with client.responses.stream(model=model, input="Tell me of Oslo", text_format=Place) as stream:
        streamed = stream.get_final_response()
    return {"type": type(whole.output_parsed).__name__, "same": whole.output_parsed == streamed.output_parsed}


@scenario(*BOTH)
def response_lifecycle(model):
    created = client.responses.create(model=model, input=[{"role": "user", "content": f"number {n}"} for n in range(25)])
    same = client.responses.retrieve(created.id).output_text == created.output_text
    items = [item.id for item in client.responses.input_items.list(created.id, limit=10)]
    client.responses.delete(created.id)
    return {"same": same, "items": len(set(items)), "deleted": raised(lambda: client.responses.retrieve(created.id))}


@scenario(*BOTH)
def response_background(model):
    fault(model, **({"holdBackground": "in_progress"} if model == NATIVE else {"hang": True}))
    queued = client.responses.create(model=model, input="Write 20 words.", background=True)
    cancelled = client.responses.cancel(queued.id)
    return {"created": queued.status, "cancelled": cancelled.status}


@scenario(*BOTH)
def response_websocket(model):
    with client.responses.connect() as connection:

        def turn(text, previous=None):
            connection.response.create(model=model, store=False, input=text, previous_response_id=previous)
            for event in connection:
                if event.type in ("response.completed", "response.failed", "error"):
                    return event

        first = turn("Reply with exactly: hello")
        second = turn("Reply with exactly: again", first.response.id)
        missing = turn("Reply with exactly: hello", "resp_missing")
    return {"text": first.response.output_text, "again": second.response.output_text, "missing": missing.type}


@scenario(*BOTH)
async def asynchronous(model):
    async with AsyncOpenAI(base_url=f"{GATEWAY_URL}/v1", api_key=GATEWAY_KEY, max_retries=0) as asynchronous_client:
        answer = await asynchronous_client.responses.create(model=model, input="Reply with exactly: hello")
        text = ""
        async for chunk in await asynchronous_client.chat.completions.create(model=model, messages=HELLO, stream=True):
            text += chunk.choices[0].delta.content or ""
    return {"response": answer.output_text, "chat": text}


@scenario(*BOTH)
def interrupted_chat(model):
    return [interrupted(model, lambda: client.chat.completions.create(model=model, messages=TELL, stream=True), chat_piece, how) for how in CUTS]


@scenario(*BOTH)
def interrupted_chat_tool(model):
    def ask():
        return client.chat.completions.create(model=model, messages=WEATHER, tools=[CHAT_TOOL], stream=True)

    return interrupted(model, ask, chat_piece, {"cutAfterChunks": 4})


@scenario(*BOTH)
def interrupted_completion(model):
    def ask():
        return client.completions.create(model=model, prompt="Tell me something.", stream=True)

    return [interrupted(model, ask, lambda chunk: chunk.choices[0].text, how) for how in CUTS]


@scenario(*BOTH)
def interrupted_response(model):
    return [interrupted(model, lambda: client.responses.create(model=model, input=TELL, stream=True), response_piece, how) for how in CUTS]


@scenario(*BOTH)
def interrupted_response_tool(model):
    def ask():
        return client.responses.create(model=model, input=WEATHER, tools=[TOOL], stream=True)

    return interrupted(model, ask, response_piece, {"cutAfterChunks": 4})


@scenario(*BOTH)
def interrupted_response_helper(model):
    fault(model, cutAfterChunks=8)

    def read():
        with client.responses.stream(model=model, input=TELL) as stream:
            return stream.get_final_response()

    return raised(read)


TELL = [{"role": "user", "content": "Tell me something."}]
WEATHER = [{"role": "user", "content": "What is the weather in Paris?"}]
# The connection breaks; the stream ends as if it were whole, but for its end.
CUTS = ({"cutAfterChunks": 8}, {"endWithoutFinish": True})


def interrupted(model, ask, piece_of, how):
    """What came of a stream, and the error that it ended with: None when it ended like a whole one."""
    fault(model, **how)
    pieces, types, error = [], [], None
    try:
        for event in ask():
            types.append(getattr(event, "type", None))
            pieces.append(piece_of(event))
    except APIError as caught:
        error = described(caught)
    done = [name for name in types if name and name.endswith((".done", ".completed", ".incomplete"))]
    return {"some": "".join(pieces) != "", "done": done, "error": error}


def chat_piece(chunk):
    delta = chunk.choices[0].delta
    calls = [call.function.arguments or "" for call in delta.tool_calls or []]
    return (delta.content or "") + "".join(calls)


def response_piece(event):
    return event.delta if event.type.endswith(".delta") else ""


@scenario(400, 401, 403, 404, 409, 422, 429, 500, 503)
def provider_error(status):
    asks = {
        "chat": lambda: client.chat.completions.create(model=TRANSLATED, messages=HELLO),
        "chat_stream": lambda: client.chat.completions.create(model=NATIVE, messages=HELLO, stream=True),
        "response": lambda: client.responses.create(model=TRANSLATED, input="hi"),
        "response_stream": lambda: client.responses.create(model=NATIVE, input="hi", stream=True),
    }
    errors = {}
    for name, ask in asks.items():
        fault(NATIVE if name.endswith("_stream") else TRANSLATED, status=status, message="no luck", code="unlucky")
        errors[name] = raised(ask)
    return errors


@scenario()
def gateway_errors():
    wrong = OpenAI(base_url=f"{GATEWAY_URL}/v1", api_key="wrong", max_retries=0)
    return {
        "key": raised(lambda: wrong.models.list()),
        "model": raised(lambda: client.chat.completions.create(model="nobody/x", messages=HELLO)),
        "input": raised(lambda: client.responses.create(model=TRANSLATED)),
        "previous": raised(lambda: client.responses.create(model=TRANSLATED, input="hi", previous_response_id="resp_none")),
        "path": raised(lambda: client.fine_tuning.jobs.list()),
    }


@scenario()
def error_in_stream():
    fault(TRANSLATED, errorInStream=3, message="out of memory")
    chat_error = raised(lambda: list(client.chat.completions.create(model=TRANSLATED, messages=TELL, stream=True)))
    fault(TRANSLATED, errorInStream=3, message="out of memory")
    response_error = raised(lambda: list(client.responses.create(model=TRANSLATED, input=TELL, stream=True)))
    return {"chat": chat_error, "response": response_error}


@scenario()
def models():
    ids = [model.id for model in client.models.list()]
    return {"ids": ids, "one": client.models.retrieve(TRANSLATED).id, "unknown": raised(lambda: client.models.retrieve("llamacpp/none"))}


@scenario()
def embeddings():
    answer = client.embeddings.create(model="llamacpp/simulated-embed", input=["a", "b"], dimensions=8)
    numbers = client.embeddings.create(model="llamacpp/simulated-embed", input=["a", "b"], dimensions=8, encoding_format="float")
    close = all(
        abs(one - other) < 1e-6
        for x, y in zip(answer.data, numbers.data)
        for one, other in zip(x.embedding, y.embedding)
    )
    return {"lengths": [len(one.embedding) for one in answer.data], "close": close}


@scenario()
def files():
    created = client.files.create(file=("lines.jsonl", io.BytesIO(b'{"a":1}\n')), purpose="batch", extra_query={"provider": "openai"})
    listed = [one.id for one in client.files.list()]
    content = client.files.content(created.id).read().decode()
    retrieved = client.files.retrieve(created.id).filename
    deleted = client.files.delete(created.id).deleted
    return {"listed": created.id in listed, "content": content, "name": retrieved, "deleted": deleted}


@scenario()
def batches():
    line = {"custom_id": "one", "method": "POST", "url": "/v1/chat/completions", "body": {"model": NATIVE, "messages": HELLO}}
    file = client.files.create(file=("lines.jsonl", io.BytesIO(json.dumps(line).encode())), purpose="batch", extra_query={"provider": "openai"})
    batch = client.batches.create(input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="24h")
    listed = [one.id for one in client.batches.list()]
    for _ in range(200):
        batch = client.batches.retrieve(batch.id)
        if batch.status not in ("validating", "in_progress", "finalizing"):
            break
    result = json.loads(client.files.content(batch.output_file_id).text.splitlines()[0])
    return {"status": batch.status, "listed": batch.id in listed, "text": result["response"]["body"]["choices"][0]["message"]["content"]}


@scenario()
def conversations():
    conversation = client.conversations.create(metadata={"topic": "names"})
    for text in ("My name is Ada.", "What is my name?"):
        answer = client.responses.create(model=TRANSLATED, input=text, conversation=conversation.id)
    items = [item.type for item in client.conversations.items.list(conversation.id, order="asc")]
    client.conversations.delete(conversation.id)
    return {"text": answer.output_text, "items": items, "gone": raised(lambda: client.conversations.retrieve(conversation.id))}


@scenario()
def images_and_audio():
    picture = client.images.generate(model="openai/simulated-small", prompt="a cat", n=1)
    sound = client.audio.speech.create(model="openai/simulated-small", voice="alloy", input="hello").read()
    heard = client.audio.transcriptions.create(model="openai/simulated-small", file=("words.txt", io.BytesIO(b"good day"), "text/plain"))
    return {"picture": picture.data[0].b64_json is not None, "sound": len(sound) > 0, "heard": heard.text}


run_scenarios()
