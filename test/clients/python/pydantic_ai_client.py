"""pydantic-ai, unchanged: its models on chat completions and on the Responses API."""

from pydantic import BaseModel
from pydantic_ai import Agent, NativeOutput, ToolOutput
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider
from openai import AsyncOpenAI
from scenarios import GATEWAY_KEY, GATEWAY_URL, described, fault, raised_async, run_scenarios, scenario

WAYS = tuple(
    f"{model} {api}" for model in ("llamacpp/simulated-small", "openai/simulated-small") for api in ("chat", "responses")
)


class Place(BaseModel):
    city: str
    inhabitants: int


def model(way):
    name, api = way.split(" ")
    client = AsyncOpenAI(base_url=f"{GATEWAY_URL}/v1", api_key=GATEWAY_KEY, max_retries=0)
    kind = OpenAIChatModel if api == "chat" else OpenAIResponsesModel
    return kind(name, provider=OpenAIProvider(openai_client=client))


def provider_of(way):
    return way.split(" ")[0]


def weather_agent(way, called):
    agent = Agent(model(way))

    @agent.tool_plain
    def get_weather(city: str, unit: str) -> str:
        """The weather in a city"""
        called.append(city)
        return f"sunny in {city}"

    return agent


@scenario(*WAYS)
async def run(way):
    result = await Agent(model(way), instructions="Obey.").run("Reply with exactly: hello")
    return {"text": result.output, "tokens": result.usage.output_tokens}


@scenario(*WAYS)
async def streamed(way):
    pieces = []
    async with Agent(model(way)).run_stream("Tell me something.") as result:
        async for piece in result.stream_text(delta=True, debounce_by=None):
            pieces.append(piece)
    return {"pieces": len(pieces) > 3, "usage": result.usage.output_tokens > 3}


@scenario(*WAYS)
async def tool_loop(way):
    called = []
    agent = weather_agent(way, called)
    whole = await agent.run("What is the weather in Paris and Rome?")
    async with agent.run_stream("What is the weather in Paris and Rome?") as result:
        streamed_text = await result.get_output()
    # Those of one answer run at the same time.
    return {"called": [sorted(called[:2]), sorted(called[2:])], "whole": whole.output, "streamed": streamed_text}


@scenario(*WAYS)
async def structured(way):
    kinds = {}
    for kind in (ToolOutput, NativeOutput):
        result = await Agent(model(way), output_type=kind(Place)).run("Tell me of Oslo")
        kinds[kind.__name__] = type(result.output).__name__
    return kinds


@scenario(*WAYS)
async def remembered(way):
    agent = Agent(model(way))
    fault(provider_of(way), text="The secret is rosebud.")
    first = await agent.run("Make up a secret.")
    second = await agent.run("What is the secret?", message_history=first.all_messages())
    return second.output


@scenario(*WAYS)
async def interrupted_text(way):
    return [await interrupted(Agent(model(way)), way, "Tell me something.", how) for how in ({"cutAfterChunks": 8}, {"endWithoutFinish": True})]


@scenario(*WAYS)
async def interrupted_tool(way):
    called = []
    seen = await interrupted(weather_agent(way, called), way, "What is the weather in Paris?", {"cutAfterChunks": 4})
    return {"called": called, **seen}


async def interrupted(agent, way, prompt, how):
    """The error that a run ended with, and what it gave as the whole answer."""
    output, error = None, None
    fault(provider_of(way), **how)
    try:
        async with agent.run_stream(prompt) as result:
            output = await result.get_output()
    except Exception as caught:
        error = described(caught)
    return {"output": output, "error": error}


@scenario(*WAYS)
async def errors(way):
    raised_by = {}
    for status in (400, 401, 404, 429, 500):
        fault(provider_of(way), status=status, message="no luck", code="unlucky")
        raised_by[status] = await raised_async(Agent(model(way)).run("hi"))
    return raised_by


run_scenarios()
