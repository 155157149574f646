/** A model endpoint that is forwarded unchanged except for the model's name: JSON, and forms with files. */
import { z } from 'zod';
import type { Frame } from '../../../../providers/stream-frames.ts';
import { type ClientEvent, END_MARKER, type JsonObject, rewriteMembers } from '../../../../providers/translate/json.ts';
import { type Answering, isNoEvent, parseChunk } from '../../../model-request/answer-body.ts';
import {
  type ForwardOperation,
  isRouteMissing,
  notServed,
  requestedUnits,
} from '../../../model-request/forward-operations.ts';
import type { ModelRequest, ReadResult } from '../../../model-request/model-request.ts';
import { referencesInForm } from '../../../model-request/references.ts';
import type { Target } from '../../../model-request/routing-types.ts';
import { streamIncomplete } from '../../../model-request/upstream-refusals.ts';
import type { TokenUsage } from '../../../model-request/usage.ts';
import { Refusal, refusals } from '../../../refusal.ts';
import { checkRequest } from '../../../request-check.ts';
import { seesEverything } from '../../../visibility.ts';
import { type ExchangeDialect, hasMembers, memberChanges, type PlanInput, readWith } from '../../dialect.ts';
import type { ForwardPlan } from '../../plan.ts';
import {
  type AnswerReader,
  AnswerStream,
  type AnswerWriter,
  type FrameResult,
  failureIn,
  unreadableEvent,
  type WrittenEnd,
} from '../../response-stream.ts';
import { PassthroughAnswer } from '../passthrough/passthrough-dialect.ts';
import { FormUpload, type OpenForm, openForm } from './form.ts';

/** Body of a forwarded endpoint: the members that the gateway reads. */
export const forwardRequestSchema = z.looseObject({ model: z.string().min(1) });

export interface ForwardOptions {
  /** Whether the record keeps the bytes of audio and of images. */
  readonly keeps: { readonly audio: boolean; readonly image: boolean };
  /** Changes to a body besides its model's name, as JSON texts by member. @throws Refusal */
  changes?(input: PlanInput): Promise<Record<string, string | undefined>>;
}

export function createForwardDialect(operation: ForwardOperation, options: ForwardOptions): ExchangeDialect {
  return {
    name: 'forward',
    endpoint: operation.endpoint,
    read: (json) => readForward(json),
    units: ({ json }) => requestedUnits(operation, json),
    async plan(input) {
      const { parsedRequest, body } = input;
      const head = forwardPlan(operation, options, input);
      const changes = { ...memberChanges(input), ...(await options.changes?.(input)) };
      for (const name of operation.without ?? []) if (name in parsedRequest.json) changes[name] = undefined;
      return {
        ...head,
        call: { ...head.call, headers: jsonHeaders(input) },
        body: hasMembers(changes) ? rewriteMembers(body, changes) : body,
        repeatable: true,
      };
    },
    streamOfRecorded: ({ provider }) => forwardStream(provider, operation.endsWithReason === true),
  };
}

function readForward(json: unknown): ReadResult {
  return readWith(checkRequest(forwardRequestSchema, json, ['model']));
}

/**
 * The part of the plan that JSON and forms share.
 * @throws Refusal when the provider does not have the operation
 */
function forwardPlan(operation: ForwardOperation, { keeps }: ForwardOptions, { target }: PlanInput) {
  const { provider, model } = target;
  const { endpoint, family, answers } = operation;
  const { serves } = provider.capabilities;
  if (serves !== undefined && !serves.includes(family)) throw notServed(operation);
  return {
    kind: 'forward',
    dialect: 'forward',
    answer: endpoint,
    call: { method: 'POST', path: endpoint, openAi: true, headers: {} },
    // Whether it is an answer is known before any of it is passed on, except of audio and images, which may be large.
    readsWhole: answers === undefined && family !== 'transcriptions',
    digestOnly: answers !== undefined && !keeps[answers],
    unsupported: (refusal) => (isRouteMissing(refusal, model) ? notServed(operation) : undefined),
    newStream: () => forwardStream(provider, operation.endsWithReason === true),
  } as const satisfies Omit<ForwardPlan<AnswerStream>, 'body' | 'repeatable'>;
}

/** The gateway cannot replay these answers from its record, so a client's idempotency key is passed to the provider. */
export function jsonHeaders({
  parsedRequest,
  headers,
}: Pick<PlanInput, 'parsedRequest' | 'headers'>): Record<string, string> {
  const accept = parsedRequest.stream ? 'text/event-stream' : '*/*';
  const key = headers['idempotency-key'];
  return { 'content-type': 'application/json', accept, ...(key === undefined ? {} : { 'idempotency-key': key }) };
}

// A model endpoint that takes a form. One dialect per request, since a form is read once, as it arrives.

export interface FormOptions extends ForwardOptions {
  readonly limitBytes: number;
}

export function formDialect(operation: ForwardOperation, options: FormOptions): ExchangeDialect {
  let form: OpenForm | undefined;
  return {
    name: 'forward',
    endpoint: operation.endpoint,
    units: ({ json }) => requestedUnits(operation, json),
    read: () => ({ ok: false, refusal: refusals.formExpected('JSON') }),
    async take(request): Promise<ReadResult> {
      const opened = await openedForm(request, options.limitBytes, (fields) => fields.has('model'));
      if (!opened.ok) return opened;
      form = opened.form;
      const { fields } = form;
      const model = fields.get('model') ?? '';
      if (model === '') return { ok: false, refusal: missingModel() };
      const json = Object.fromEntries(fields);
      return {
        ok: true,
        parsedRequest: {
          model,
          provider: fields.get('provider') || undefined,
          stream: fields.get('stream') === 'true',
          json,
        },
      };
    },
    plan(input) {
      if (form === undefined) throw new Error('the form was not read');
      return planOf(form, input, operation, options);
    },
    streamOfRecorded: ({ provider }) => forwardStream(provider, operation.endsWithReason === true),
  };
}

function planOf(
  form: OpenForm,
  input: PlanInput,
  operation: ForwardOperation,
  options: FormOptions,
): ForwardPlan<AnswerStream> {
  const { model } = input.target;
  const head = forwardPlan(operation, options, input);
  const { headers, ...upload } = formUpload(form, input, {
    change: (name, value) => (name === 'model' ? model : value),
    keepText: input.policy.capture === 'full',
    keepFiles: input.policy.capture === 'full' && operation.files !== undefined && options.keeps[operation.files],
  });
  return { ...head, call: { ...head.call, headers }, ...upload };
}

/** Reads the form of a request until the target is decided. */
export async function openedForm(
  request: ModelRequest,
  limitBytes: number,
  isDecided: (fields: ReadonlyMap<string, string>) => boolean,
): Promise<{ readonly ok: true; readonly form: OpenForm } | { readonly ok: false; readonly refusal: Refusal }> {
  const { headers, body, bodyPieces } = request;
  if (Number(headers['content-length']) > limitBytes) return { ok: false, refusal: refusals.bodyTooLarge(limitBytes) };
  const source = { pieces: bodyPieces ?? only(body), contentType: headers['content-type'] ?? 'nothing', limitBytes };
  try {
    return { ok: true, form: await openForm(source, isDecided) };
  } catch (error) {
    if (error instanceof Refusal) return { ok: false, refusal: error };
    throw error;
  }
}

/** How a form is sent to the provider: in one piece when all of it has been read, else as it arrives. */
export function formUpload(
  form: OpenForm,
  { record, target, visibility }: Pick<PlanInput, 'record' | 'target' | 'visibility'>,
  options: {
    /** The value that the provider gets for a field; undefined when it does not get the field. */
    change(name: string, value: string): string | undefined;
    readonly keepText: boolean;
    readonly keepFiles: boolean;
  },
): Pick<ForwardPlan, 'body' | 'repeatable' | 'fields'> & { readonly headers: Record<string, string> } {
  const upload = new FormUpload(form, {
    ...options,
    record,
    change: (name, value) => (name === 'provider' ? undefined : options.change(name, value)),
    late(name, value) {
      refuseLate(name, value, target);
      if (!seesEverything(visibility) && !referencesInForm([{ name, value }]).next().done)
        throw refusals.lateFileName(name);
    },
  });
  const repeatable = form.rest === undefined;
  const headers = { 'content-type': upload.contentType };
  const fields = form.held.filter((part) => part.kind === 'field');
  return { headers, body: repeatable ? upload.held() : upload, repeatable, fields };
}

/** @throws Refusal for a late field that would have selected another target */
function refuseLate(name: string, value: string, { provider, model }: Target): void {
  if (name === 'provider' && value !== provider.name && value !== provider.type) throw refusals.lateField(name);
  if (name === 'model' && model !== '') throw refusals.lateField(name);
}

function missingModel(): Refusal {
  return refusals.invalidRequest("Missing required parameter: 'model'.", 'model', 'missing_required_parameter');
}

async function* only(body: Buffer): AsyncGenerator<Buffer> {
  yield body;
}

// The answer of a forwarded endpoint: its bytes pass unchanged.

/** @param endsWithReason whether a stream is whole only with a finish reason or `[DONE]`, as for text completions */
export function forwardStream(provider: Answering, endsWithReason: boolean): AnswerStream {
  const answer = new ForwardAnswer(provider, endsWithReason);
  return new AnswerStream(answer, answer);
}

// The answer of a forwarded endpoint: read only for its usage, and for errors after its start.

/** In JSON text this matches members only: inside a string the quotes would be escaped. */
const MAY_FAIL = /"error"\s*:\s*[{"]|"(?:finish_reason|object)"\s*:\s*"error"|"error_code"\s*:|^{\s*"detail"/;

const GIVES_REASON = /"(?:finish|stop)_reason"\s*:\s*"/;

class ForwardAnswer implements AnswerReader, AnswerWriter {
  readonly namesEvents = false;
  readonly #provider: Answering;
  readonly #passing = new PassthroughAnswer();
  /** For a stream that must end with a reason: whether it is a stream, and whether the reason has arrived. */
  #isStream = false;
  #isEnded: boolean;

  constructor(provider: Answering, endsWithReason: boolean) {
    this.#provider = provider;
    this.#isEnded = !endsWithReason;
  }

  readWhole(bytes: Buffer, parsed: unknown) {
    return this.#passing.readWhole(bytes, parsed);
  }

  read(frame: Frame): FrameResult {
    const { data } = frame;
    if (data !== undefined && isNoEvent(data)) return unreadableEvent(frame, this.#provider);
    const isError = frame.event === 'error' && data !== undefined;
    const mayFail = isError || (data !== undefined && MAY_FAIL.test(data));
    const failed = mayFail ? parseChunk(data ?? '') : undefined;
    if (isError && failed === undefined) return unreadableEvent(frame, this.#provider);
    const failure = failed === undefined ? undefined : failureIn(failed, frame, this.#provider);
    if (failure !== undefined) return failure;
    this.#isStream = true;
    if (!this.#isEnded && data !== undefined) this.#isEnded = data === END_MARKER || GIVES_REASON.test(data);
    return this.#passing.read(frame);
  }

  usage(): TokenUsage {
    return this.#passing.usage();
  }

  get answerId(): string | undefined {
    return this.#passing.answerId;
  }

  writeWhole(answer: unknown): unknown {
    return answer;
  }

  write(event: JsonObject): readonly JsonObject[] {
    return [event];
  }

  finish(): WrittenEnd {
    if (!this.#isStream || this.#isEnded) return { events: [], cut: false };
    return { events: this.broken(streamIncomplete(this.#provider.name)), cut: true };
  }

  broken(refusal: Refusal): readonly ClientEvent[] {
    return [refusal.envelope()];
  }

  abandon(): readonly ClientEvent[] {
    return [];
  }
}
