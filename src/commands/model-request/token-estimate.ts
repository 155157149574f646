/** Estimates the tokens of a request or an answer that no provider has counted. Pure. */

/** For English text, without the punctuation of JSON. */
const BYTES_PER_TOKEN = 4;
/** Tokens of an attached image, recording or document of usual size, whatever its length. */
const MEDIA_TOKENS = 1_000;
const MEDIA = /^(?:data:[^,]{0,200};base64,|[A-Za-z0-9+/=_-]{1024})/;
const OUTPUT_TOKENS = 1024;
/** Members of OpenAI's and Anthropic's APIs, and of local servers with limits of their own. */
const OUTPUT_LIMITS = [
  ...['max_output_tokens', 'max_completion_tokens', 'max_tokens'],
  ...['n_predict', 'num_predict', 'max_new_tokens'],
];

export function tokensInBytes(bytes: number): number {
  return Math.ceil(bytes / BYTES_PER_TOKEN);
}

export function tokensInText(text: string): number {
  return tokensInBytes(Buffer.byteLength(text));
}

/** Tokens of all text in a request. The names of members represent the text that a model gets around it. */
export function promptTokens(json: unknown): number {
  let bytes = 0;
  let media = 0;
  // Iterative, because a client may nest to any depth.
  const rest: unknown[] = [json];
  while (rest.length > 0) {
    const value = rest.pop();
    if (typeof value === 'string') {
      if (MEDIA.test(value)) media += 1;
      else bytes += Buffer.byteLength(value);
    } else if (Array.isArray(value)) {
      for (const each of value) rest.push(each);
    } else if (typeof value === 'object' && value !== null) {
      for (const [name, member] of Object.entries(value)) {
        bytes += name.length;
        rest.push(member);
      }
    }
  }
  return tokensInBytes(bytes) + media * MEDIA_TOKENS;
}

/** No model answers with more tokens; a client may send any number. */
const MAX_OUTPUT_TOKENS = 100_000_000;

/**
 * The longest answer that a request allows, by any of its limits that a provider may apply; undefined when it has
 * none, or when one of them is not a positive number, such as -1, which local servers treat as unlimited.
 */
export function outputLimit(json: Readonly<Record<string, unknown>>): number | undefined {
  const { options } = json;
  const nested =
    typeof options === 'object' && options !== null && 'num_predict' in options ? options.num_predict : null;
  const given = [nested, ...OUTPUT_LIMITS.map((name) => json[name])].filter(
    (limit) => limit !== undefined && limit !== null,
  );
  let longest: number | undefined;
  for (const limit of given) {
    if (typeof limit !== 'number' || !(limit > 0)) return undefined;
    longest = Math.min(Math.max(limit, longest ?? 0), MAX_OUTPUT_TOKENS);
  }
  return longest;
}

/** The expected length of an answer before it begins. */
export function expectedOutput(json: Readonly<Record<string, unknown>>, usual: number = OUTPUT_TOKENS): number {
  return Math.ceil((outputLimit(json) ?? usual) * requestedAnswers(json));
}

/**
 * How many answers are charged: `best_of` are generated where `n` are returned, for each prompt in a list of prompts.
 */
export function requestedAnswers({ n, best_of, prompt }: Readonly<Record<string, unknown>>): number {
  return Math.max(answerCount(n), answerCount(best_of)) * promptCount(prompt);
}

function answerCount(value: unknown): number {
  return typeof value === 'number' && value > 1 && value <= 1000 ? value : 1;
}

/** A list of numbers is one prompt, in tokens. */
function promptCount(prompt: unknown): number {
  return Array.isArray(prompt) && prompt.length > 1 && typeof prompt[0] !== 'number' ? prompt.length : 1;
}
