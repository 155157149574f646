/**
 * What clients and validators demand of a response and of a stream of events, as checks. The response: all 31
 * members of Open Responses' ResponseResource and both usage vocabularies. The stream: the order and the identities
 * that OpenAI's own accumulator insists on.
 */
import { z } from 'zod';

const status = z.enum(['in_progress', 'completed', 'incomplete']);
const filled = z.string().min(1);

const tokenLogprob = z.strictObject({ token: z.string(), logprob: z.number(), bytes: z.array(z.int()) });
const logprobs = z.array(tokenLogprob.extend({ top_logprobs: z.array(tokenLogprob) }).strict());

const textPart = z.strictObject({
  type: z.literal('output_text'),
  text: z.string(),
  annotations: z.array(z.looseObject({ type: filled })),
  logprobs,
});
const refusalPart = z.strictObject({ type: z.literal('refusal'), refusal: z.string() });
const reasoningText = z.strictObject({ type: z.literal('reasoning_text'), text: z.string() });
const part = z.discriminatedUnion('type', [textPart, refusalPart]);
const anyPart = z.discriminatedUnion('type', [textPart, refusalPart, reasoningText]);
const extra = z.looseObject({}).optional();
const summaryText = z.strictObject({ type: z.literal('summary_text'), text: z.string() });

const call = {
  id: filled,
  status,
  call_id: filled,
  name: z.string(),
  namespace: filled.optional(),
  extra_content: z.unknown().optional(),
};
export const outputItem = z.discriminatedUnion('type', [
  z.strictObject({
    type: z.literal('message'),
    id: filled,
    status,
    role: z.literal('assistant'),
    content: z.array(part),
    extra_content: extra,
  }),
  z.strictObject({
    type: z.literal('reasoning'),
    id: filled,
    status,
    summary: z.array(summaryText),
    content: z.array(reasoningText).optional(),
    encrypted_content: filled.optional(),
    extra_content: extra,
  }),
  z.strictObject({ type: z.literal('function_call'), ...call, arguments: z.string() }),
  z.strictObject({ type: z.literal('custom_tool_call'), ...call, input: z.string() }),
]);

const usage = z.strictObject({
  input_tokens: z.int(),
  input_tokens_details: z.strictObject({ cached_tokens: z.int(), cache_write_tokens: z.int() }),
  output_tokens: z.int(),
  output_tokens_details: z.strictObject({ reasoning_tokens: z.int() }),
  total_tokens: z.int(),
  prompt_tokens_details: z.looseObject({ cached_tokens: z.int() }),
  completion_tokens_details: z.looseObject({ reasoning_tokens: z.int() }),
  raw_usage: z.looseObject({}),
});

const tool = z.looseObject({ type: filled }).refine((given) => {
  return given.type !== 'function' || ['name', 'description', 'parameters', 'strict'].every((key) => key in given);
}, 'a function tool has all its members');

export const responseObject = z
  .strictObject({
    id: filled,
    object: z.literal('response'),
    created_at: z.int(),
    status: z.enum(['queued', 'in_progress', 'completed', 'incomplete', 'failed', 'cancelled']),
    completed_at: z.int().nullable(),
    background: z.boolean(),
    error: z.strictObject({ type: filled, code: filled, message: filled }).nullable(),
    frequency_penalty: z.number(),
    incomplete_details: z.strictObject({ reason: filled }).nullable(),
    instructions: z.union([z.string(), z.array(z.looseObject({}))]).nullable(),
    max_output_tokens: z.int().nullable(),
    max_tool_calls: z.int().nullable(),
    model: filled,
    provider: filled,
    output: z.array(outputItem),
    parallel_tool_calls: z.boolean(),
    presence_penalty: z.number(),
    previous_response_id: filled.nullable(),
    prompt_cache_key: z.string().nullable(),
    prompt_cache_retention: z.string().nullable(),
    reasoning: z.looseObject({ effort: z.string().nullable(), summary: z.string().nullable() }),
    safety_identifier: z.string().nullable(),
    service_tier: filled,
    store: z.boolean(),
    temperature: z.number(),
    text: z.looseObject({ format: z.looseObject({ type: filled }) }),
    tool_choice: z.union([filled, z.looseObject({ type: filled })]),
    tools: z.array(tool),
    top_logprobs: z.int(),
    top_p: z.number(),
    truncation: z.enum(['auto', 'disabled']),
    usage: usage.nullable(),
    user: z.string().nullable(),
    metadata: z.record(z.string(), z.string()),
    conversation: z.looseObject({ id: filled }).optional(),
    prompt: z.unknown().optional(),
    include: z.array(filled).min(1).optional(),
    prompt_cache_options: z.looseObject({}).optional(),
  })
  .superRefine((response, context) => {
    const wrong = (message: string) => context.addIssue({ code: 'custom', message });
    if ((response.completed_at !== null) !== (response.status === 'completed'))
      wrong('completed_at: only when completed');
    if ((response.error !== null) !== (response.status === 'failed')) wrong('error: exactly when failed');
    if ((response.incomplete_details !== null) !== (response.status === 'incomplete')) wrong('incomplete_details');
    if (response.status === 'completed' && response.output.some((item) => item.status !== 'completed')) {
      wrong('a completed response has completed items');
    }
    if (response.status === 'incomplete' && response.output.slice(0, -1).some((item) => item.status !== 'completed')) {
      wrong('an incomplete item is the last one');
    }
  });

/** The 31 members that Open Responses requires. */
export const requiredMembers =
  'id object created_at completed_at status incomplete_details model previous_response_id instructions output error tools tool_choice truncation parallel_tool_calls text top_p presence_penalty frequency_penalty top_logprobs temperature reasoning usage max_output_tokens max_tool_calls store background service_tier metadata safety_identifier prompt_cache_key'.split(
    ' ',
  );

const place = { item_id: filled, output_index: z.int() };
const inPart = { ...place, content_index: z.int() };
const inSummary = { ...place, summary_index: z.int() };
const lifecycle = { response: responseObject };
const numbered = { sequence_number: z.int() };

const members: Readonly<Record<string, z.ZodRawShape>> = {
  'response.created': lifecycle,
  'response.in_progress': lifecycle,
  'response.completed': lifecycle,
  'response.incomplete': lifecycle,
  'response.failed': lifecycle,
  'response.output_item.added': { output_index: z.int(), item: outputItem },
  'response.output_item.done': { output_index: z.int(), item: outputItem },
  'response.content_part.added': { ...inPart, part: anyPart },
  'response.content_part.done': { ...inPart, part: anyPart },
  'response.output_text.delta': { ...inPart, delta: z.string(), logprobs },
  'response.output_text.done': { ...inPart, text: z.string(), logprobs },
  'response.output_text.annotation.added': { ...inPart, annotation_index: z.int(), annotation: z.looseObject({}) },
  'response.refusal.delta': { ...inPart, delta: z.string() },
  'response.refusal.done': { ...inPart, refusal: z.string() },
  'response.reasoning_summary_part.added': { ...inSummary, part: summaryText },
  'response.reasoning_summary_part.done': { ...inSummary, part: summaryText },
  'response.reasoning_summary_text.delta': { ...inSummary, delta: z.string() },
  'response.reasoning_summary_text.done': { ...inSummary, text: z.string() },
  'response.reasoning_text.delta': { ...inPart, delta: z.string() },
  'response.reasoning_text.done': { ...inPart, text: z.string() },
  'response.function_call_arguments.delta': { ...place, delta: z.string() },
  'response.function_call_arguments.done': { ...place, name: z.string(), arguments: z.string() },
  'response.custom_tool_call_input.delta': { ...place, delta: z.string() },
  'response.custom_tool_call_input.done': { ...place, input: z.string() },
  error: {
    code: z.string().nullable(),
    message: z.string(),
    param: z.null(),
    error: z.strictObject({
      type: z.enum([
        'provider_error',
        'rate_limit_error',
        'invalid_request_error',
        'authentication_error',
        'not_found_error',
        'permission_error',
        'internal_error',
      ]),
      code: z.string().nullable(),
      message: z.string(),
      param: z.null(),
      provider: z.string().optional(),
    }),
  },
};

const eventShapes = new Map(
  Object.entries(members).map(([type, shape]) => [type, z.strictObject({ type: z.string(), ...numbered, ...shape })]),
);

/** The members of an event that the rules for whole streams use; the shape of each is checked before. */
interface Seen {
  readonly sequence_number: number;
  readonly response?: z.infer<typeof responseObject>;
  readonly item?: z.infer<typeof outputItem>;
  readonly part?: z.infer<typeof anyPart> | z.infer<typeof summaryText>;
  readonly item_id?: string;
  readonly output_index?: number;
  readonly content_index?: number;
  readonly summary_index?: number;
  readonly delta?: string;
  readonly text?: string;
  readonly refusal?: string;
  readonly arguments?: string;
  readonly input?: string;
}

const terminal = ['response.completed', 'response.incomplete', 'response.failed'];

export function checkResponse(response: unknown): z.infer<typeof responseObject> {
  return responseObject.parse(response);
}

interface Told {
  id: string;
  type: string;
  callId: string | undefined;
  done?: unknown;
  openPart: number | undefined;
  parts: number;
  said: string;
}

/** Checks one whole stream of decoded events. @throws naming the event that breaks a rule */
export function checkStream(events: readonly unknown[]): z.infer<typeof responseObject> {
  const items: Told[] = [];
  const ids = new Set<string>();
  let responseId: string | undefined;
  let final: z.infer<typeof responseObject> | undefined;
  for (const [number, given] of events.entries()) {
    const { type } = z.looseObject({ type: z.string() }).parse(given);
    const fail = (rule: string): never => {
      throw new Error(`event ${number} (${type}): ${rule}`);
    };
    const shape = eventShapes.get(type) ?? fail('is no event of the Responses API');
    const checked = shape.safeParse(given);
    if (!checked.success) fail(z.prettifyError(checked.error));
    const event = given as Seen;
    if (event.sequence_number !== number) fail(`has sequence number ${event.sequence_number}`);
    if (final !== undefined) fail('comes after the terminal event');
    if (number === 0 && type !== 'response.created') fail('is first instead of response.created');
    if (number === 1 && type !== 'response.in_progress') fail('is second instead of response.in_progress');
    if (event.response !== undefined) {
      responseId ??= event.response.id;
      if (event.response.id !== responseId) fail('changes the id of the response');
    }
    if (event.response !== undefined && terminal.includes(type)) {
      final = event.response;
      checkFinal(type, final, items, fail);
    } else if (event.item !== undefined && type === 'response.output_item.added') {
      if (event.output_index !== items.length) fail(`opens output_index ${event.output_index}, not ${items.length}`);
      if (event.item.status !== 'in_progress') fail('opens an item that is not in progress');
      const { id, type: itemType } = event.item;
      const callId = callIdOf(event.item);
      for (const key of callId === undefined ? [id] : [id, callId]) {
        if (ids.has(key)) fail(`uses the id ${key} again`);
        ids.add(key);
      }
      items.push({ id, type: itemType, callId, openPart: undefined, parts: 0, said: '' });
    } else if (event.output_index !== undefined) {
      checkProgress(type, event, items[event.output_index] ?? fail('belongs to an item that was not added'), fail);
    }
  }
  if (final === undefined) throw new Error('the stream has no terminal event');
  return final;
}

function checkFinal(
  type: string,
  response: z.infer<typeof responseObject>,
  items: readonly Told[],
  fail: (rule: string) => never,
): void {
  const ends = response.status === 'cancelled' ? 'response.failed' : `response.${response.status}`;
  if (ends !== type) fail(`carries a response that is ${response.status}`);
  if (response.output.length !== items.length) fail('does not hold the items that were streamed');
  for (const [at, item] of items.entries()) {
    const last = response.output[at] ?? fail(`has no item ${at}`);
    if (last.id !== item.id || last.type !== item.type || callIdOf(last) !== item.callId) fail(`item ${at} changed`);
    const mayBeOpen = type === 'response.failed' || (last.status === 'incomplete' && callIdOf(last) !== undefined);
    if (item.done === undefined && !mayBeOpen) fail(`item ${at} is not done`);
    if (item.done !== undefined && JSON.stringify(item.done) !== JSON.stringify(last)) fail(`item ${at} differs`);
  }
}

function checkProgress(type: string, event: Seen, item: Told, fail: (rule: string) => never): void {
  if (item.done !== undefined) fail('comes after its item is done');
  if (event.item_id !== undefined && event.item_id !== item.id) fail('has the id of another item');
  const index = event.content_index ?? event.summary_index;
  if (type.endsWith('part.added')) {
    if (item.openPart !== undefined) fail('opens a part before the last one is done');
    if (index !== item.parts) fail(`opens part ${index}, not ${item.parts}`);
    item.openPart = index;
    item.parts += 1;
    item.said = '';
  } else if (index !== undefined && index !== item.openPart) {
    fail(`is about part ${index}, which is not open`);
  }
  item.said += event.delta ?? '';
  const whole = event.text ?? event.refusal ?? event.arguments ?? event.input;
  if (whole !== undefined && whole !== item.said) fail('is not the sum of its deltas');
  if (type.endsWith('part.done') && event.part !== undefined) {
    const said = event.part.type === 'refusal' ? event.part.refusal : event.part.text;
    if (said !== item.said) fail('is not the sum of its deltas');
    item.openPart = undefined;
  }
  if (type === 'response.output_item.done' && event.item !== undefined) {
    if (item.openPart !== undefined) fail('comes while a part is open');
    if (event.item.id !== item.id || event.item.type !== item.type) fail('changes the item');
    item.done = event.item;
  }
}

function callIdOf(item: z.infer<typeof outputItem>): string | undefined {
  return 'call_id' in item ? item.call_id : undefined;
}
