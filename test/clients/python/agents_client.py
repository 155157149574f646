"""openai-agents, unchanged: its models on chat completions and on the Responses API."""

from agents import (
    Agent,
    ModelSettings,
    OpenAIChatCompletionsModel,
    OpenAIConversationsSession,
    OpenAIResponsesModel,
    Runner,
    SQLiteSession,
    function_tool,
    set_tracing_disabled,
)
from openai import AsyncOpenAI
from pydantic import BaseModel
from scenarios import GATEWAY_KEY, GATEWAY_URL, described, fault, raised_async, run_scenarios, scenario

set_tracing_disabled(True)

MODELS = ("llamacpp/simulated-small", "openai/simulated-small")
WAYS = tuple(f"{model} {api}" for model in MODELS for api in ("chat", "responses"))
client = AsyncOpenAI(base_url=f"{GATEWAY_URL}/v1", api_key=GATEWAY_KEY, max_retries=0)


class Place(BaseModel):
    city: str
    inhabitants: int


def model(way):
    name, api = way.split(" ")
    kind = OpenAIChatCompletionsModel if api == "chat" else OpenAIResponsesModel
    return kind(model=name, openai_client=client)


def provider_of(way):
    return way.split(" ")[0]


def weather_agent(way, called):
    @function_tool
    def get_weather(city: str, unit: str) -> str:
        """The weather in a city"""
        called.append(city)
        return f"sunny in {city}"

    return Agent(name="forecaster", model=model(way), tools=[get_weather])


@scenario(*WAYS)
async def run(way):
    result = await Runner.run(Agent(name="plain", instructions="Obey.", model=model(way)), "Reply with exactly: hello")
    return {"text": result.final_output, "tokens": result.context_wrapper.usage.output_tokens}


@scenario(*WAYS)
async def streamed(way):
    result = Runner.run_streamed(Agent(name="plain", model=model(way)), "Tell me something.")
    deltas = []
    async for event in result.stream_events():
        if event.type == "raw_response_event" and event.data.type == "response.output_text.delta":
            deltas.append(event.data.delta)
    return {"pieces": len(deltas) > 3, "same": "".join(deltas) == result.final_output}


@scenario(*WAYS)
async def tool_loop(way):
    called = []
    whole = await Runner.run(weather_agent(way, called), "What is the weather in Paris and Rome?")
    result = Runner.run_streamed(weather_agent(way, called), "Think: what is the weather in Paris and Rome?")
    async for _ in result.stream_events():
        pass
    return {"called": called, "whole": whole.final_output, "streamed": result.final_output}


@scenario(*WAYS)
async def structured(way):
    result = await Runner.run(Agent(name="typed", model=model(way), output_type=Place), "Tell me of Oslo")
    return type(result.final_output).__name__


@scenario(*WAYS)
async def session(way):
    kept = SQLiteSession("one")
    agent = Agent(name="plain", model=model(way))
    await Runner.run(agent, "My name is Ada.", session=kept)
    return (await Runner.run(agent, "What is my name?", session=kept)).final_output


@scenario(*MODELS)
async def kept_by_the_gateway(name):
    agent = Agent(name="plain", model=model(f"{name} responses"))
    first = await Runner.run(agent, "My name is Ada.")
    by_id = await Runner.run(agent, "What is my name?", previous_response_id=first.last_response_id)
    conversation = OpenAIConversationsSession(openai_client=client)
    await Runner.run(agent, "My name is Eve.", session=conversation)
    in_conversation = await Runner.run(agent, "What is my name?", session=conversation)
    return {"by_id": by_id.final_output, "in_conversation": in_conversation.final_output}


@scenario(*WAYS)
async def interrupted_text(way):
    return [await interrupted(Agent(name="plain", model=model(way)), way, "Tell me something.", how) for how in ({"cutAfterChunks": 8}, {"endWithoutFinish": True})]


@scenario(*WAYS)
async def interrupted_tool(way):
    called = []
    seen = await interrupted(weather_agent(way, called), way, "What is the weather in Paris?", {"cutAfterChunks": 4})
    return {"called": called, **seen}


async def interrupted(agent, way, prompt, how):
    """The error that a run ended with, and what it gave as the whole answer."""
    error = None
    fault(provider_of(way), **how)
    result = Runner.run_streamed(agent, prompt)
    try:
        async for _ in result.stream_events():
            pass
    except Exception as caught:
        error = described(caught)
    return {"output": result.final_output, "error": error}


@scenario(*WAYS)
async def errors(way):
    raised_by = {}
    agent = Agent(name="plain", model=model(way), model_settings=ModelSettings())
    for status in (400, 401, 404, 429, 500):
        fault(provider_of(way), status=status, message="no luck", code="unlucky")
        raised_by[status] = await raised_async(Runner.run(agent, "hi"))
    return raised_by


run_scenarios()
