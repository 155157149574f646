/**
 * The operations on a file or a batch at a provider (retrieve, delete, cancel), and the check of the input of a new
 * batch.
 */
import { fileDeleted } from '../../events/catalogue/response.ts';
import { type EventContext, streamName } from '../../events/event.ts';
import { type EventLog, WrongExpectedRevision } from '../../events/log.ts';
import { jsonProblem, unbounded } from '../../json/body-scan.ts';
import { isObject } from '../../json/is-object.ts';
import type { Provider } from '../../providers/provider.ts';
import { membersIn } from '../../providers/translate/json.ts';
import { isNamedOnly } from '../../providers/translate/responses-to-chat/items-to-chat-messages.ts';
import type { BatchLineForecast } from '../admission/cost-forecast.ts';
import type { DeferredUsage } from '../deferred/deferred-usage.ts';
import type { PlanInput } from '../exchange/dialect.ts';
import { isRouteMissing, notServed } from '../model-request/forward-operations.ts';
import { READ_MEMBERS } from '../model-request/model-request.ts';
import { referencesIn } from '../model-request/references.ts';
import type { Target } from '../model-request/routing-types.ts';
import type { WorkPart } from '../model-request/usage.ts';
import { askProvider, contentPath, type FileQuestion, readLines } from '../provider-objects/ask-provider.ts';
import {
  batches,
  files,
  isObjectId,
  type ObjectKind,
  type TrackedObject,
  type TrackedObjects,
  trackingWrite,
} from '../provider-objects/tracked.ts';
import { Refusal, refusals } from '../refusal.ts';
import { everything, seesEverything, type VisibilityScope } from '../visibility.ts';
import { ableProvider, candidates, type Providers } from './holders.ts';

export interface ObjectDependencies {
  readonly log: EventLog;
  readonly tracked: TrackedObjects;
  readonly providers: Providers;
  readonly deferred: Pick<DeferredUsage, 'settleBatch'>;
  readonly forecast: BatchInputRules['forecast'];
}

export interface ObjectRequest extends ObjectDependencies {
  readonly context: EventContext;
  readonly visibility: VisibilityScope;
  readonly requestId: string;
  /** The `provider` query parameter: the provider of an object that was not created through this gateway. */
  readonly provider: string | undefined;
  readonly signal: AbortSignal;
}

interface Holder {
  readonly provider: Provider;
  /** Undefined for an object that was not created through this gateway. */
  readonly tracked: TrackedObject | undefined;
  /** The object, when it was fetched to find its provider. */
  readonly object?: Record<string, unknown>;
}

/**
 * The provider of an object: the recorded one, else the one that the caller names, else the first candidate that has
 * it.
 * @throws Refusal when no provider has it, or the caller may not see it
 */
export async function holderOf(kind: ObjectKind, id: string, request: ObjectRequest): Promise<Holder> {
  const tracked = await remembered(kind, id, request.visibility, request);
  if (tracked !== undefined) {
    const provider = request.providers.named(tracked.provider);
    if (provider === undefined) throw kind.notFound(id);
    return { provider, tracked };
  }
  if (request.provider !== undefined) {
    return { provider: ableProvider(kind, request.provider, request.providers), tracked };
  }
  for (const provider of candidates(kind, request.providers)) {
    try {
      const object = await askProvider(provider, question('GET', kind, id, '', request));
      if (object !== undefined) return { provider, tracked, object };
    } catch (error) {
      // The caller did not name this provider, so its failure does not decide whether the object exists.
      if (!(error instanceof Refusal)) throw error;
    }
  }
  throw kind.notFound(id);
}

/**
 * The recorded facts of an object; undefined when there are none but a provider may have it.
 * @throws Refusal when the caller may not see it, or it was deleted
 */
export async function remembered(
  kind: ObjectKind,
  id: string,
  visibility: VisibilityScope,
  { tracked }: Pick<ObjectDependencies, 'tracked'>,
): Promise<TrackedObject | undefined> {
  const found = await tracked.find(kind.name, id, visibility);
  if (found === undefined && !(await tracked.mayBeOnlyAtProvider(kind.name, id, visibility))) throw kind.notFound(id);
  return found;
}

/** @throws Refusal */
export async function retrieveObject(kind: ObjectKind, id: string, request: ObjectRequest): Promise<object> {
  const holder = await holderOf(kind, id, request);
  const object = holder.object ?? (await requestObject('GET', kind, id, '', holder, request));
  return presentObject(kind, object, holder, request);
}

/** @throws Refusal */
export async function cancelBatch(id: string, request: ObjectRequest): Promise<object> {
  const holder = await holderOf(batches, id, request);
  const object = await requestObject('POST', batches, id, '/cancel', holder, request);
  return presentObject(batches, object, holder, request);
}

/** @throws Refusal */
export async function deleteFile(id: string, request: ObjectRequest): Promise<object> {
  const { provider, tracked } = await holderOf(files, id, request);
  const deleted = await askProvider(provider, question('DELETE', files, id, '', request));
  if (tracked === undefined) {
    if (deleted === undefined) throw files.notFound(id);
    return deleted;
  }
  // A file that no longer exists counts as deleted.
  const events = [fileDeleted.create({}, request.context)];
  try {
    await request.log.append([{ stream: streamName('file', id), events, expectedRevision: tracked.revision }]);
  } catch (error) {
    if (!(error instanceof WrongExpectedRevision)) throw error;
  }
  return deleted ?? { id, object: 'file', deleted: true };
}

async function requestObject(
  method: 'GET' | 'POST',
  kind: ObjectKind,
  id: string,
  below: string,
  { provider, tracked }: Holder,
  request: ObjectRequest,
): Promise<Record<string, unknown>> {
  let found: Record<string, unknown> | undefined;
  try {
    found = await askProvider(provider, question(method, kind, id, below, request));
  } catch (error) {
    const isKnown = provider.capabilities.serves !== undefined || tracked !== undefined;
    if (!isKnown && error instanceof Refusal && isRouteMissing(error, id)) throw notServed(kind);
    throw error;
  }
  if (found === undefined) throw kind.notFound(id);
  return found;
}

function question(
  method: 'GET' | 'POST' | 'DELETE',
  kind: ObjectKind,
  id: string,
  below: string,
  { requestId, signal }: ObjectRequest,
) {
  return { method, path: `${kind.endpoint}/${encodeURIComponent(id)}${below}`, requestId, signal };
}

/**
 * The object as the client gets it. A batch's result files belong to the owner of the batch, which is recorded before
 * the client learns their ids.
 */
async function presentObject(
  kind: ObjectKind,
  object: Record<string, unknown>,
  { provider, tracked }: Holder,
  request: ObjectRequest,
): Promise<object> {
  const { context } = request;
  // The usage is recorded before the client can have the output deleted.
  if (kind.name === 'batch') await request.deferred.settleBatch(provider, object, request);
  if (kind.name === 'batch' && tracked !== undefined) {
    for (const id of [object.output_file_id, object.error_file_id]) {
      if (typeof id !== 'string' || !isObjectId(id)) continue;
      if ((await request.tracked.find('file', id, everything)) !== undefined) continue;
      await request.log.append([trackingWrite('file', id, provider, { owner: tracked }, context)]);
    }
  }
  return { ...object, provider: provider.name };
}

/**
 * The input of a batch, checked before its provider gets it: each line is a request for a model that the caller may
 * use, at a price that its budgets can count.
 */
interface BatchInput {
  readonly parts: readonly WorkPart[];
  /** Nano-dollars for all lines; undefined when a price is missing. */
  readonly cost: number | undefined;
  /** The cost that all lines together cannot exceed; undefined when one has no such bound, or it is not needed. */
  readonly bound: number | undefined;
  /** A model without a price. */
  readonly unpriced: string | undefined;
  /** Files that its lines name and that are to be checked. */
  readonly namedFiles: ReadonlySet<string>;
}

interface BatchInputRules {
  /** @throws Refusal when the model may not be used */
  mayUse(provider: Provider, model: string): void;
  forecast(target: Target, endpoint: string, json: Record<string, unknown>, bytes: number): BatchLineForecast;
  /**
   * The files that a line names, which are to be checked.
   * @param beside the other members of the line
   * @throws Refusal, made by `refuse`, when the line contains a reference that is not allowed
   */
  namedFiles(
    json: Record<string, unknown>,
    beside: Record<string, unknown>,
    refuse: (why: string) => Refusal,
  ): Iterable<string>;
}

/** Maximum number of different models in one batch. */
const MAX_MODELS = 100;
const MAX_NAMED_FILES = 10_000;

/** The source of the lines. */
export interface BatchLines {
  /**
   * Calls `onLine` with each line, parsed and as bytes, in order.
   * @throws Refusal when the lines cannot be read; errors of `onLine`
   */
  each(onLine: (value: unknown, text: Buffer) => void): Promise<void> | void;
  /** The refusal of an invalid line. @param line from 1 on */
  refused(line: number, why: string): Refusal;
}

/** The lines of a file at a provider. */
function linesOfFile(provider: Provider, fileId: string, question: FileQuestion): BatchLines {
  return {
    async each(onLine) {
      if (!(await readLines(provider, contentPath(fileId), question, onLine))) throw files.notFound(fileId);
    },
    refused(line, why) {
      const message = `Line ${line} of the batch's file cannot be admitted: ${why}.`;
      return refusals.invalidRequest(message, 'input_file_id', 'batch_line_invalid');
    },
  };
}

/** @throws Refusal when they cannot be read, or one of them is not allowed */
async function readBatchInput(provider: Provider, lines: BatchLines, rules: BatchInputRules): Promise<BatchInput> {
  const parts = new Map<string, { -readonly [Name in keyof WorkPart]: WorkPart[Name] }>();
  const namedFiles = new Set<string>();
  let cost: number | undefined = 0;
  let bound: number | undefined = 0;
  let unpriced: string | undefined;
  let line = 0;
  await lines.each((value, text) => {
    line += 1;
    const refuse = (why: string): Refusal => lines.refused(line, why);
    const { url, body, model, beside } = requestIn(value, text, refuse);
    let part = parts.get(model);
    if (part === undefined) {
      rules.mayUse(provider, model);
      if (parts.size >= MAX_MODELS) throw refuse(`it names more than ${MAX_MODELS} models`);
      part = { model, answers: 0, inputTokens: 0, outputTokens: 0 };
      parts.set(model, part);
    }
    for (const id of rules.namedFiles(body, beside, refuse)) namedFiles.add(id);
    if (namedFiles.size > MAX_NAMED_FILES) throw refuse(`more than ${MAX_NAMED_FILES} files are named`);
    const one = rules.forecast({ provider, model }, url, body, text.length);
    part.answers += 1;
    part.inputTokens += one.inputTokens;
    part.outputTokens += one.outputTokens;
    if (one.cost === undefined) unpriced ??= model;
    cost = cost === undefined || one.cost === undefined ? undefined : cost + one.cost;
    bound = bound === undefined || one.bound === undefined ? undefined : bound + one.bound;
  });
  return { parts: [...parts.values()], cost, bound, unpriced, namedFiles };
}

interface LineRequest {
  readonly url: string;
  readonly body: Record<string, unknown>;
  readonly model: string;
  readonly beside: Record<string, unknown>;
}

/** The request in a line. A line that cannot be read is refused, because its cost cannot be counted. */
function requestIn(value: unknown, text: Buffer, refuse: (why: string) => Refusal): LineRequest {
  if (!isObject(value)) throw refuse('it is not a JSON object');
  const { body, ...beside } = value;
  const { url } = beside;
  if (typeof url !== 'string' || !isObject(body)) throw refuse("it has no 'url' and 'body'");
  const { model } = body;
  // Parsers differ in which of two members they take, and some ignore the case of names.
  const problem = nameProblem(text) ?? nameProblem(membersIn(text).find(({ name }) => name === 'body')?.value);
  if (problem !== undefined) throw refuse(problem);
  if (typeof model !== 'string' || model === '') throw refuse("its 'body' names no model");
  return { url, body, model, beside };
}

function nameProblem(object: Buffer | undefined): string | undefined {
  const problem = object === undefined ? undefined : jsonProblem(object, unbounded, true, READ_MEMBERS);
  if (problem?.kind === 'repeated') return `it has '${problem.name}' more than once`;
  return problem?.kind === 'ambiguous' ? `some providers take '${problem.name}' for another member` : undefined;
}

/** Milliseconds allowed for reading a large file. */
const READING_MS = 5 * 60_000;

/**
 * Reserves the expected cost of a whole file. The file is not read when no check applies to it.
 * @returns the work per model; undefined when the file was not read
 * @throws Refusal
 */
export async function checkBatchFile(
  fileId: string,
  input: CheckedInput,
  deps: ObjectDependencies,
): Promise<readonly WorkPart[] | undefined> {
  const { target, visibility, reservation, record } = input;
  const { provider } = target;
  if (deps.providers.mayUseAll(provider) && seesEverything(visibility) && reservation?.isCounted !== true)
    return undefined;
  const question = { requestId: record.context.requestId ?? record.id, signal: AbortSignal.timeout(READING_MS) };
  return checkBatchLines(linesOfFile(provider, fileId, question), input, deps);
}

type CheckedInput = Pick<PlanInput, 'target' | 'visibility' | 'reservation' | 'record'>;

/** The same checks for lines, which are always read. */
export async function checkBatchLines(
  lines: BatchLines,
  { target: { provider }, visibility, reservation }: CheckedInput,
  { providers, tracked, forecast }: ObjectDependencies,
): Promise<readonly WorkPart[]> {
  const isLimited = !seesEverything(visibility);
  const rules = { mayUse: providers.checkModel, forecast, namedFiles: isLimited ? filesNamed : () => [] };
  const { parts, cost, bound, unpriced, namedFiles } = await readBatchInput(provider, lines, rules);
  for (const id of namedFiles) await remembered(files, id, visibility, { tracked });
  if (reservation?.isCounted) {
    if (cost === undefined) throw refusals.priceUnknown(`${provider.name}/${unpriced}`);
    reservation.reserve(cost, bound);
  }
  return parts;
}

/**
 * The files that a line names. Refuses references to other objects that the provider stores: it does not know which
 * caller created them.
 */
function filesNamed(
  json: Readonly<Record<string, unknown>>,
  beside: Readonly<Record<string, unknown>>,
  refuse: (why: string) => Refusal,
): string[] {
  const named = ['previous_response_id', 'conversation'].find((name) => (json[name] ?? null) !== null);
  if (named !== undefined) throw refuse(`a batch cannot continue from '${named}'`);
  if (Array.isArray(json.input) && json.input.some(isNamedOnly)) {
    throw refuse('a batch cannot refer to items');
  }
  const references = [...referencesIn(json), ...referencesIn(beside)];
  const other = references.find(({ kind }) => kind !== 'file');
  if (other !== undefined) throw refuse(`'${other.param}' names an object stored at the provider`);
  return references.map(({ id }) => id);
}
