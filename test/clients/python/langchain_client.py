"""langchain-openai, unchanged: on chat completions and on the Responses API."""

from langchain_core.messages import HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI, OpenAIEmbeddings
from pydantic import BaseModel
from scenarios import GATEWAY_KEY, GATEWAY_URL, fault, described, raised, run_scenarios, scenario

# A model, and whether the Responses API is used.
WAYS = tuple(
    f"{model} {api}" for model in ("llamacpp/simulated-small", "openai/simulated-small") for api in ("chat", "responses")
)


def chat(way, **more):
    model, api = way.split(" ")
    return ChatOpenAI(
        model=model,
        use_responses_api=api == "responses",
        base_url=f"{GATEWAY_URL}/v1",
        api_key=GATEWAY_KEY,
        max_retries=0,
        **more,
    )


def model_of(way):
    return way.split(" ")[0]


class Place(BaseModel):
    city: str
    inhabitants: int


@tool
def get_weather(city: str, unit: str) -> str:
    """The weather in a city"""
    return f"sunny in {city}"


def added(chunks):
    whole = None
    for chunk in chunks:
        whole = chunk if whole is None else whole + chunk
    return whole


@scenario(*WAYS)
def invoked(way):
    answer = chat(way).invoke([SystemMessage("Obey."), HumanMessage("Reply with exactly: hello")])
    return {"text": answer.text, "tokens": answer.usage_metadata["output_tokens"]}


@scenario(*WAYS)
def streamed(way):
    chunks = list(chat(way, stream_usage=True).stream("Tell me something."))
    whole = added(chunks)
    usage = whole.usage_metadata
    return {
        "pieces": sum(chunk.text != "" for chunk in chunks) > 3,
        "usage": usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"] > 0,
        "same": whole.text == chat(way).invoke("Tell me something.").text,
    }


@scenario(*WAYS)
async def asynchronous(way):
    text = ""
    async for chunk in chat(way).astream("Reply with exactly: hello"):
        text += chunk.text
    answers = await chat(way).abatch(["Reply with exactly: one", "Reply with exactly: two"])
    return {"streamed": text, "batch": [answer.text for answer in answers]}


@scenario(*WAYS)
def tool_loop(way):
    texts = []
    for stream in (False, True):
        bound = chat(way).bind_tools([get_weather])
        ask = (lambda given: added(bound.stream(given))) if stream else bound.invoke
        messages = [HumanMessage("Think: what is the weather in Paris and Rome?")]
        called = ask(messages)
        messages.append(called)
        messages += [get_weather.invoke(call) for call in called.tool_calls]
        texts.append(ask(messages).text)
    return texts


@scenario(*WAYS)
def structured(way):
    kinds = {}
    for method in ("json_schema", "function_calling"):
        kinds[method] = type(chat(way).with_structured_output(Place, method=method).invoke("Tell me of Oslo")).__name__
    return kinds


@scenario(*WAYS)
def remembered(way):
    model = chat(way)
    fault(model_of(way), text="The secret is rosebud.")
    question = HumanMessage("Make up a secret.")
    first = model.invoke([question])
    return model.invoke([question, first, HumanMessage("What is the secret?")]).text


@scenario(*WAYS)
def interrupted_text(way):
    return [interrupted(chat(way), way, "Tell me something.", how) for how in ({"cutAfterChunks": 8}, {"endWithoutFinish": True})]


@scenario(*WAYS)
def interrupted_tool(way):
    return interrupted(chat(way).bind_tools([get_weather]), way, "What is the weather in Paris?", {"cutAfterChunks": 4})


def interrupted(runnable, way, prompt, how):
    """Whether something came of a stream, and the error that it ended with: None when it ended like a whole one."""
    fault(model_of(way), **how)
    whole, error = None, None
    try:
        for chunk in runnable.stream(prompt):
            whole = chunk if whole is None else whole + chunk
    except Exception as caught:
        error = described(caught)
    return {"some": whole is not None and (whole.text != "" or len(whole.tool_call_chunks) > 0), "error": error}


@scenario(*WAYS)
def errors(way):
    raised_by = {}
    for status in (400, 401, 404, 429, 500):
        fault(model_of(way), status=status, message="no luck", code="unlucky")
        raised_by[status] = raised(lambda: chat(way).invoke("hi"))
    fault(model_of(way), errorInStream=5, message="out of memory")
    return {**raised_by, "stream": raised(lambda: list(chat(way).stream("Tell me something.")))}


@scenario("llamacpp/simulated-small", "openai/simulated-small")
def previous_response(model):
    first = chat(f"{model} responses").invoke("My name is Ada.")
    by_id = chat(f"{model} responses").invoke("What is my name?", previous_response_id=first.response_metadata["id"])
    automatic = chat(f"{model} responses", use_previous_response_id=True)
    messages = [HumanMessage("My name is Ada."), first, HumanMessage("What is my name?")]
    return {"by_id": by_id.text, "automatic": automatic.invoke(messages).text}


@scenario()
def embeddings():
    # Without its own tokenizer, whose vocabulary it would fetch.
    model = OpenAIEmbeddings(
        model="llamacpp/simulated-embed", base_url=f"{GATEWAY_URL}/v1", api_key=GATEWAY_KEY, check_embedding_ctx_length=False
    )
    return {"one": model.embed_query("b") == model.embed_documents(["a", "b"])[1]}


run_scenarios()
