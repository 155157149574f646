/** How many tokens a request or an answer is likely to have, where no provider has counted them. Pure. */

/** Of English text, with the punctuation of JSON left out. */
const BYTES_PER_TOKEN = 4;
/** A picture, a recording or a document that is sent along counts as much as a usual one, however long it is. */
const MEDIA_TOKENS = 1_000;
const MEDIA = /^(?:data:[^,]{0,200};base64,|[A-Za-z0-9+/=_-]{1024})/;
const OUTPUT_TOKENS = 1024;
/** Of OpenAI's and Anthropic's APIs, and of local servers that also take limits of their own. */
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

/** Of everything that a request says: the names of its members stand for what a model is given around their text. */
export function promptTokens(json: unknown): number {
  let bytes = 0;
  let media = 0;
  // A client may nest as deeply as it likes.
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

/** No model answers with more tokens; a client may write any number. */
const MAX_OUTPUT_TOKENS = 100_000_000;

/**
 * The longest answer that a request allows, by whichever of its limits a provider may go; undefined when it has none, and
 * when one of them is no positive number, such as the -1 by which local servers mean any length.
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

/** What an answer is taken to have before anything is known of it. */
export function expectedOutput(json: Readonly<Record<string, unknown>>, usual: number = OUTPUT_TOKENS): number {
  return Math.ceil((outputLimit(json) ?? usual) * answersAsked(json));
}

/** How many answers are made: `best_of` are paid for where `n` are returned, for each prompt in a list of prompts. */
export function answersAsked({ n, best_of, prompt }: Readonly<Record<string, unknown>>): number {
  return Math.max(answerCount(n), answerCount(best_of)) * promptCount(prompt);
}

function answerCount(value: unknown): number {
  return typeof value === 'number' && value > 1 && value <= 1000 ? value : 1;
}

/** A list of numbers is one prompt, in tokens. */
function promptCount(prompt: unknown): number {
  return Array.isArray(prompt) && prompt.length > 1 && typeof prompt[0] !== 'number' ? prompt.length : 1;
}
