/** A chat answer as a stream of chunks, for the laws that hold however it is cut. */

export interface StreamedAnswer {
  readonly reasoning: string;
  readonly content: string;
  readonly refusal: string;
  readonly calls: readonly {
    readonly id?: string | undefined;
    readonly name: string;
    readonly arguments: string;
    readonly extra?: unknown;
  }[];
  readonly finish: string | null;
  readonly usage?: unknown;
  readonly extra?: unknown;
}

/** Cuts a text into pieces at places that a random stream of numbers chooses. */
function pieces(text: string, cut: () => number): string[] {
  const parts: string[] = [];
  for (let at = 0; at < text.length; ) {
    const size = 1 + (cut() % 5);
    parts.push(text.slice(at, at + size));
    at += size;
  }
  return parts;
}

export const says = (delta: object, finish_reason: string | null = null) => ({
  choices: [{ index: 0, delta, finish_reason }],
});

/** The answer as some provider might stream it: any cuts, tool calls in any mix, usage with or after the end. */
export function streamed(answer: StreamedAnswer, cut: () => number): unknown[] {
  const chunks: unknown[] = [says({ role: 'assistant', content: '' })];
  for (const piece of pieces(answer.reasoning, cut)) chunks.push(says({ reasoning_content: piece }));
  if (answer.extra !== undefined) chunks.push(says({ extra_content: answer.extra }));
  for (const piece of pieces(answer.content, cut)) chunks.push(says({ content: piece }));
  for (const piece of pieces(answer.refusal, cut)) chunks.push(says({ refusal: piece }));
  const queues = answer.calls.map((call, index) => ({ index, parts: pieces(call.arguments, cut) }));
  for (const [index, { id, name, extra }] of answer.calls.entries()) {
    const called = { name, arguments: '' };
    chunks.push(says({ tool_calls: [{ index, id, type: 'function', function: called, extra_content: extra }] }));
  }
  for (let open = queues.filter((queue) => queue.parts.length > 0); open.length > 0; ) {
    const queue = open[cut() % open.length];
    const part = queue?.parts.shift();
    chunks.push(says({ tool_calls: [{ index: queue?.index, function: { arguments: part } }] }));
    open = open.filter((one) => one.parts.length > 0);
  }
  const withUsage = cut() % 2 === 0;
  chunks.push({ ...says({}, answer.finish), ...(withUsage ? { usage: answer.usage ?? null } : {}) });
  if (!withUsage) chunks.push({ choices: [], usage: answer.usage ?? null });
  return chunks;
}
