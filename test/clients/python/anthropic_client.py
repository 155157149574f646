"""Anthropic's own package for Python, unchanged."""

from anthropic import Anthropic, APIError, AsyncAnthropic, beta_tool
from pydantic import BaseModel
from scenarios import GATEWAY_KEY, GATEWAY_URL, described, fault, raised, run_scenarios, scenario

NATIVE = "anthropic/simulated-small"
TRANSLATED = "llamacpp/simulated-small"
BOTH = (TRANSLATED, NATIVE)

client = Anthropic(base_url=GATEWAY_URL, api_key=GATEWAY_KEY, max_retries=0)
HELLO = [{"role": "user", "content": "Reply with exactly: hello"}]
TELL = [{"role": "user", "content": "Tell me something."}]
WEATHER = [{"role": "user", "content": "What is the weather in Paris and Rome?"}]
TOOL = {
    "name": "get_weather",
    "description": "The weather in a city",
    "input_schema": {
        "type": "object",
        "properties": {"city": {"type": "string"}, "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]}},
        "required": ["city", "unit"],
        "additionalProperties": False,
    },
}


class Place(BaseModel):
    city: str
    inhabitants: int


@scenario(*BOTH)
def message(model):
    answer = client.messages.create(model=model, max_tokens=1000, messages=HELLO, system="Obey.")
    return {
        "text": answer.content[0].text,
        "stop": answer.stop_reason,
        "usage": answer.usage.input_tokens > 0 and answer.usage.output_tokens > 0,
        "request_id": answer._request_id,
    }


@scenario(*BOTH)
def message_stream(model):
    with client.messages.stream(model=model, max_tokens=1000, messages=HELLO) as stream:
        text = "".join(stream.text_stream)
        final = stream.get_final_message()
    types = [event.type for event in client.messages.create(model=model, max_tokens=1000, messages=HELLO, stream=True)]
    return {"text": text, "final": final.content[0].text, "usage": final.usage.output_tokens > 0, "types": types}


@scenario(*BOTH)
def thinking(model):
    with client.messages.stream(
        model=model, max_tokens=4000, messages=TELL, thinking={"type": "enabled", "budget_tokens": 2000}
    ) as stream:
        final = stream.get_final_message()
    return [block.type for block in final.content]


@scenario(*BOTH)
def tool_loop(model):
    messages = list(WEATHER)
    with client.messages.stream(model=model, max_tokens=1000, messages=messages, tools=[TOOL]) as stream:
        first = stream.get_final_message()
    results = [
        {"type": "tool_result", "tool_use_id": block.id, "content": f"sunny in {block.input['city']}"}
        for block in first.content
        if block.type == "tool_use"
    ]
    messages += [{"role": "assistant", "content": first.content}, {"role": "user", "content": results}]
    last = client.messages.create(model=model, max_tokens=1000, messages=messages, tools=[TOOL])
    return {"stop": first.stop_reason, "calls": len(results), "text": last.content[0].text}


@scenario(*BOTH)
def tool_runner(model):
    @beta_tool
    def get_weather(city: str) -> str:
        """The weather in a city."""
        return f"sunny in {city}"

    runner = client.beta.messages.tool_runner(model=model, max_tokens=1000, messages=WEATHER, tools=[get_weather])
    return runner.until_done().content[0].text


@scenario(*BOTH)
def parsed(model):
    messages = [{"role": "user", "content": "Tell me of Oslo"}]
    answer = client.messages.parse(model=model, max_tokens=1000, messages=messages, output_format=Place)
    return type(answer.parsed_output).__name__


@scenario(*BOTH)
def counted(model):
    return client.messages.count_tokens(model=model, messages=HELLO).input_tokens > 0


@scenario(*BOTH)
async def asynchronous(model):
    async with AsyncAnthropic(base_url=GATEWAY_URL, api_key=GATEWAY_KEY, max_retries=0) as asynchronous_client:
        async with asynchronous_client.messages.stream(model=model, max_tokens=1000, messages=HELLO) as stream:
            return await stream.get_final_text()


@scenario(*BOTH)
def interrupted_text(model):
    return [interrupted(model, {"messages": TELL}, how) for how in ({"cutAfterChunks": 8}, {"endWithoutFinish": True})]


@scenario(*BOTH)
def interrupted_tool(model):
    return interrupted(model, {"messages": WEATHER, "tools": [TOOL]}, {"cutAfterChunks": 4})


@scenario(*BOTH)
def interrupted_helper(model):
    fault(model, cutAfterChunks=8)

    def read():
        with client.messages.stream(model=model, max_tokens=1000, messages=TELL) as stream:
            return stream.get_final_message()

    return raised(read)


def interrupted(model, body, how):
    """What came of a stream, and the error that it ended with: None when it ended like a whole one."""
    fault(model, **how)
    types, error = [], None
    try:
        for event in client.messages.create(model=model, max_tokens=1000, stream=True, **body):
            types.append(event.type)
    except APIError as caught:
        error = described(caught)
    return {"some": "content_block_delta" in types, "stopped": "message_stop" in types, "error": error}


@scenario(400, 401, 403, 404, 409, 413, 422, 429, 500, 503, 529)
def provider_error(status):
    errors = {}
    for model in BOTH:
        fault(model, status=status, message="no luck")
        errors[model] = raised(lambda: client.messages.create(model=model, max_tokens=1000, messages=HELLO))
    return errors


@scenario()
def gateway_errors():
    wrong = Anthropic(base_url=GATEWAY_URL, api_key="wrong", max_retries=0)
    return {
        "key": raised(lambda: wrong.messages.create(model=TRANSLATED, max_tokens=10, messages=HELLO)),
        "model": raised(lambda: client.messages.create(model="nobody/x", max_tokens=10, messages=HELLO)),
        "messages": raised(lambda: client.messages.create(model=TRANSLATED, max_tokens=10, messages="hello")),
    }


@scenario(*BOTH)
def error_in_stream(model):
    fault(model, errorInStream=3, message="out of memory")
    return raised(lambda: list(client.messages.create(model=model, max_tokens=1000, messages=TELL, stream=True)))


@scenario()
def bearer():
    by_token = Anthropic(base_url=GATEWAY_URL, auth_token=GATEWAY_KEY, api_key=None, max_retries=0)
    return by_token.messages.create(model=TRANSLATED, max_tokens=1000, messages=HELLO).content[0].text


@scenario()
def models():
    ids = [model.id for model in client.models.list()]
    return {"ids": ids, "one": client.models.retrieve(TRANSLATED).id}


run_scenarios()
