/** OpenAI's legacy completions, parsed and rendered. */
import { type Answer, answer, logprobOf } from './answer.ts';
import { grouped, type Rendering, settingsOf } from './chat.ts';
import { type JsonObject, listIn, numberIn, objectIn } from './json.ts';
import { Refused } from './refused.ts';
import { DONE, dataFrame, type Frame, type Reply } from './reply.ts';

export function completion(body: JsonObject, rendering: Rendering): Reply {
  const prompts =
    typeof body.prompt === 'string' ? [body.prompt] : listIn(body.prompt).filter((each) => typeof each === 'string');
  if (prompts.length === 0) throw new Refused(400, 'prompt must be a string or a list of strings', { param: 'prompt' });
  const settings = settingsOf(body, rendering);
  const n = numberIn(body.n) ?? 1;
  const answers = prompts.flatMap((prompt) =>
    Array.from({ length: n }, (_, choice) =>
      answer(
        {
          ...settings,
          turns: [{ role: 'user', text: prompt }],
          tools: [],
          toolChoice: 'none',
          maxTokens: numberIn(body.max_tokens),
          stop:
            typeof body.stop === 'string' ? [body.stop] : listIn(body.stop).filter((each) => typeof each === 'string'),
          format: { type: 'text' },
          reasoning: false,
        },
        choice,
      ),
    ),
  );
  const alternatives = numberIn(body.logprobs);
  const head = {
    id: rendering.newId('cmpl-'),
    object: 'text_completion',
    created: rendering.now(),
    model: settings.model,
  };
  if (body.stream === true) {
    const includeUsage = objectIn(body.stream_options).include_usage === true;
    return { status: 200, frames: chunks(head, answers, alternatives, includeUsage, n, rendering) };
  }
  const choices = answers.map((each, index) => ({
    index,
    text: (body.echo === true ? (prompts[Math.floor(index / n)] ?? '') : '') + each.text,
    logprobs: logprobsOf(each.tokens, alternatives),
    finish_reason: each.finish,
  }));
  const json = {
    ...head,
    choices: rendering.fault?.emptyChoices ? [] : choices,
    ...(rendering.fault?.usage === false ? {} : { usage: usageOf(answers, n) }),
  };
  return { status: 200, json };
}

function* chunks(
  head: object,
  answers: readonly Answer[],
  alternatives: number | undefined,
  includeUsage: boolean,
  n: number,
  { fault }: Rendering,
): Generator<Frame> {
  for (const [index, given] of answers.entries()) {
    for (const tokens of grouped(given.tokens, fault)) {
      const choice = { index, text: tokens.join(''), logprobs: logprobsOf(tokens, alternatives), finish_reason: null };
      yield dataFrame('delta', { ...head, choices: [choice] });
    }
    yield dataFrame('finish', { ...head, choices: [{ index, text: '', logprobs: null, finish_reason: given.finish }] });
  }
  if (includeUsage) yield dataFrame('usage', { ...head, choices: [], usage: usageOf(answers, n) });
  yield DONE;
}

function logprobsOf(tokens: readonly string[], alternatives: number | undefined) {
  if (alternatives === undefined) return null;
  const entries = tokens.map((token) => logprobOf(token, alternatives));
  let offset = 0;
  return {
    tokens,
    token_logprobs: entries.map((entry) => entry.logprob),
    top_logprobs: entries.map((entry) =>
      Object.fromEntries(entry.top_logprobs.map((each) => [each.token, each.logprob])),
    ),
    text_offset: tokens.map((token) => {
      offset += token.length;
      return offset - token.length;
    }),
  };
}

/** Every `n` answers share a prompt, which counts once. */
function usageOf(answers: readonly Answer[], n: number) {
  const prompt = answers.reduce((sum, each, i) => sum + (i % n === 0 ? each.promptTokens : 0), 0);
  const spent = answers.reduce((sum, each) => sum + each.completionTokens, 0);
  return { prompt_tokens: prompt, completion_tokens: spent, total_tokens: prompt + spent };
}
