/**
 * The answers of the upstream, as constant bytes: a chat completion of 30 words, as JSON and as 33 server-sent
 * events (role, 30 words, finish, usage; then `[DONE]`). No byte of it has a meaning in nginx's configuration.
 */
export const WORDS = 30;

const HEAD = { id: 'chatcmpl-0190f3a2b4c87d11a2e65f00', created: 1_700_000_000, model: 'canned' };
const USAGE = { prompt_tokens: 80, completion_tokens: WORDS, total_tokens: 80 + WORDS };
const VOCABULARY = ['stone', 'river', 'lantern', 'harbor', 'window', 'maple', 'village', 'autumn', 'garden', 'winter'];
const words = Array.from({ length: WORDS }, (_, at) => `${at === 0 ? '' : ' '}${VOCABULARY[at % VOCABULARY.length]}`);

/** The text of every answer. */
export const TEXT = words.join('');

export const chatJson = JSON.stringify({
  ...HEAD,
  object: 'chat.completion',
  choices: [
    { index: 0, message: { role: 'assistant', content: TEXT, refusal: null }, logprobs: null, finish_reason: 'stop' },
  ],
  usage: USAGE,
});

export const modelsJson = JSON.stringify({ object: 'list', data: [{ id: 'canned', object: 'model', created: 1 }] });

const frame = (delta: object, finish: string | null = null) =>
  eventOf({ choices: [{ index: 0, delta, logprobs: null, finish_reason: finish }], usage: null });

function eventOf(members: object): string {
  return `data: ${JSON.stringify({ ...HEAD, object: 'chat.completion.chunk', ...members })}\n\n`;
}

/** Number of digits of a time in microseconds, which a paced stream contains in place of each word. */
export const STAMP_DIGITS = 16;
/** The text before the digits, which occurs nowhere else in an answer. */
export const STAMP_MARK = '@';
const STAMP = STAMP_MARK + '0'.repeat(STAMP_DIGITS);

/** The events of a stream, each with its blank line. With `stamped`, each word is a place for a time. */
export function chatEvents({ stamped = false, count = WORDS } = {}): readonly string[] {
  const texts = Array.from({ length: count }, (_, at) => (stamped ? STAMP : (words[at % words.length] ?? '')));
  return [
    frame({ role: 'assistant', content: '' }),
    ...texts.map((content) => frame({ content })),
    frame({}, 'stop'),
    eventOf({ choices: [], usage: USAGE }),
    'data: [DONE]\n\n',
  ];
}

export const chatSse = chatEvents().join('');
