/**
 * `POST /v1/files` and `POST /v1/batches`: put to one provider, and remembered as its own before the client learns the
 * id. `GET /v1/files/{id}/content`: the bytes, as they come. The models that are named inside a batch's file are the
 * provider's own. The file is read where anything is to be held against it: lists of models, a budget, what the caller sees.
 */
import { z } from 'zod';
import { rewriteMembers } from '../../providers/json-members.ts';
import type { Provider } from '../../providers/provider.ts';
import type { Asked, ExchangeDialect, PlanInput, ReadResult, Target } from '../exchange/dialect.ts';
import type { ExchangeRecord } from '../exchange/exchange-record.ts';
import { formUpload, openedForm } from '../exchange/form-dialect.ts';
import { jsonHeaders } from '../exchange/forward-dialect.ts';
import { isRouteMissing, notServed } from '../exchange/forward-operations.ts';
import type { OpenForm } from '../exchange/open-form.ts';
import type { DeferredWork, ForwardPlan } from '../exchange/relay.ts';
import { isObject } from '../exchange/usage.ts';
import { Refusal, refusals } from '../refusal.ts';
import { checkRequest } from '../request-check.ts';
import type { Sight } from '../visibility.ts';
import { checkBatch } from './check-batch.ts';
import { ableProvider, chosenProvider, onlyProvider } from './holders.ts';
import { ObjectRelay } from './relay-object.ts';
import { holderOf, type ObjectDependencies, type ObjectRequest, remembered } from './stored-objects.ts';
import { batches, files, isObjectId, type ObjectKind, trackingWrite } from './tracked.ts';

export interface CreateOptions {
  /** The `provider` query parameter. */
  readonly provider: string | undefined;
  readonly capture: 'full' | 'metadata';
  readonly limitBytes: number;
}

/** One for each request, since a form is read once, as it comes. */
export function uploadDialect(options: CreateOptions, deps: ObjectDependencies): ExchangeDialect {
  const { provider: named, limitBytes, capture } = options;
  const isDecided = (fields: ReadonlyMap<string, string>): boolean =>
    fields.has('provider') ||
    fields.has('model') ||
    named !== undefined ||
    onlyProvider(files, deps.providers) !== undefined;
  let form: OpenForm | undefined;
  return {
    name: 'forward',
    endpoint: files.endpoint,
    mayBeFree: true,
    read: () => ({ ok: false, refusal: refusals.formExpected('JSON') }),
    async take(request) {
      const opened = await openedForm(request, limitBytes, isDecided);
      if (!opened.ok) return opened;
      form = opened.form;
      const { fields } = form;
      return nothingAsked(Object.fromEntries(fields), fields.get('provider') || named);
    },
    target: (asked) => chosenTarget(files, asked, deps),
    plan(input) {
      if (form === undefined) throw new Error('the form was not read');
      const { headers, ...upload } = formUpload(form, input, {
        change: (name, value) => (name === 'model' ? undefined : value),
        keepText: capture === 'full',
        keepFiles: false,
      });
      return { ...createPlan(files, input, headers), ...upload };
    },
    relayAgain: () => new ObjectRelay(),
  };
}

/** Body of `POST /v1/batches`, as far as the gateway reads it. */
export const batchRequestSchema = z.looseObject({
  input_file_id: z.string().min(1),
  provider: z.string().nullish(),
  model: z.string().nullish(),
});

export function batchDialect(options: CreateOptions, sight: Sight, deps: ObjectDependencies): ExchangeDialect {
  return {
    name: 'forward',
    endpoint: batches.endpoint,
    mayBeFree: true,
    read(json) {
      const checked = checkRequest(batchRequestSchema, json, ['input_file_id']);
      if (!checked.ok) {
        return { ok: false, refusal: new Refusal({ ...checked.refusal, type: 'invalid_request_error' }) };
      }
      return nothingAsked(checked.request, checked.request.provider || options.provider);
    },
    async target(asked) {
      const file = await remembered(files, String(asked.json.input_file_id), sight, deps);
      const { providers } = deps;
      const isChosen = file === undefined || asked.provider !== undefined || modelIn(asked) !== undefined;
      const { provider } = isChosen
        ? await chosenTarget(batches, asked, deps)
        : { provider: ableProvider(batches, file.provider, providers) };
      return { provider, model: '' };
    },
    async plan(input) {
      const { json } = input.asked;
      const changes: Record<string, string | undefined> = { provider: undefined, model: undefined };
      if (json.completion_window === undefined) changes.completion_window = '"24h"';
      const parts = await checkBatch(String(json.input_file_id), input, deps);
      const head = createPlan(batches, input, jsonHeaders(input), (id) => ({ kind: 'batch', id, parts }));
      return { ...head, body: rewriteMembers(input.body, changes), repeatable: false };
    },
    relayAgain: () => new ObjectRelay(),
  };
}

/**
 * One for each request: it is for one file.
 * @param noteRead called once it is known that the caller may have the file, and before it is asked for
 */
export function contentDialect(
  id: string,
  request: ObjectRequest,
  deps: ObjectDependencies,
  noteRead: () => Promise<void>,
): ExchangeDialect {
  const path = `${files.endpoint}/${encodeURIComponent(id)}/content`;
  const asItIs = (): ReadResult => nothingAsked({}, request.provider);
  return {
    name: 'forward',
    endpoint: '/v1/files/{id}/content',
    mayBeFree: true,
    read: asItIs,
    take: asItIs,
    async target() {
      const { provider } = await holderOf(files, id, request, deps);
      await noteRead();
      return { provider, model: '' };
    },
    plan: () => ({
      dialect: 'forward',
      call: { method: 'GET', path, openAi: true, headers: { accept: '*/*' } },
      body: undefined,
      repeatable: true,
      digestOnly: true,
      verbatim: true,
      relay: () => new ObjectRelay(),
    }),
    relayAgain: () => new ObjectRelay(),
    answerHeaders({ headers }) {
      const returned: Record<string, string> = {};
      for (const name of ['content-type', 'content-length', 'content-disposition', 'location']) {
        const value = headers[name];
        if (value !== undefined) returned[name] = value;
      }
      return returned;
    },
  };
}

function nothingAsked(json: Record<string, unknown>, provider: string | undefined): ReadResult {
  return { ok: true, asked: { model: '', provider, stream: false, json } };
}

function modelIn({ json }: Asked): string | undefined {
  return typeof json.model === 'string' && json.model !== '' ? json.model : undefined;
}

async function chosenTarget(kind: ObjectKind, asked: Asked, { providers }: ObjectDependencies): Promise<Target> {
  const provider = await chosenProvider(kind, { provider: asked.provider, model: modelIn(asked) }, providers);
  return { provider, model: '' };
}

/** @param work what the provider goes on with, under the id of the new object */
function createPlan(
  kind: ObjectKind,
  { record, target }: PlanInput,
  headers: Record<string, string>,
  work?: (id: string) => DeferredWork,
) {
  const { provider } = target;
  return {
    dialect: 'forward',
    call: { method: 'POST', path: kind.endpoint, openAi: true, headers },
    readsWhole: true,
    unsupported: (refusal) => (isRouteMissing(refusal, '') ? notServed(kind) : undefined),
    relay: () => {
      let made: string | undefined;
      return new ObjectRelay(
        (bytes, parsed) => {
          made = remember(kind, parsed, provider, record);
          return isObject(parsed) ? rewriteMembers(bytes, { provider: JSON.stringify(provider.name) }) : bytes;
        },
        () => (made === undefined ? undefined : work?.(made)),
      );
    },
  } as const satisfies Omit<ForwardPlan, 'body' | 'repeatable'>;
}

/** Where the object is goes on the record together with the end of the exchange. @returns its id */
function remember(kind: ObjectKind, parsed: unknown, provider: Provider, record: ExchangeRecord): string | undefined {
  const id = isObject(parsed) ? parsed.id : undefined;
  if (typeof id !== 'string' || !isObjectId(id)) return undefined;
  const { owner, context } = record;
  record.noteElsewhere(trackingWrite(kind.name, id, provider, { owner, exchangeId: record.id }, context));
  return id;
}
