/**
 * `POST /v1/files` and `POST /v1/batches`: sent to one provider, and recorded as its object before the client learns
 * the id. `GET /v1/files/{id}/content`: the bytes, unchanged. The models named inside a batch's file are the
 * provider's own ids. The file is read when a check applies to it: lists of models, a budget, or the caller's visible
 * objects.
 */
import { z } from 'zod';
import { isObject } from '../../json/is-object.ts';
import { rewriteMembers } from '../../providers/translate/json.ts';
import type { ExchangeDialect } from '../exchange/dialect.ts';
import type { OpenForm } from '../exchange/dialects/forward/form.ts';
import { formUpload, jsonHeaders, openedForm } from '../exchange/dialects/forward/forward-dialect.ts';
import type { ParsedRequest, ReadResult } from '../model-request/model-request.ts';
import type { Target } from '../model-request/routing-types.ts';
import type { WorkPart } from '../model-request/usage.ts';
import { batches, files, type ObjectKind } from '../provider-objects/tracked.ts';
import { Refusal, refusals } from '../refusal.ts';
import { checkRequest } from '../request-check.ts';
import { ableProvider, chosenProvider, onlyProvider, type Providers, takesInline } from './holders.ts';
import * as inline from './inline-batch.ts';
import { createPlan, noModelRequest, objectStream } from './object-plan.ts';
import { checkBatchFile, checkBatchLines, holderOf, type ObjectRequest, remembered } from './stored-objects.ts';

/** One dialect per request, since a form is read once, as it arrives. */
export function uploadDialect(request: ObjectRequest, limitBytes: number): ExchangeDialect {
  const { provider: named, providers } = request;
  const isDecided = (fields: ReadonlyMap<string, string>): boolean =>
    fields.has('provider') ||
    fields.has('model') ||
    named !== undefined ||
    onlyProvider(files, providers) !== undefined;
  let form: OpenForm | undefined;
  return {
    name: 'forward',
    endpoint: files.endpoint,
    mayBeFree: true,
    read: () => ({ ok: false, refusal: refusals.formExpected('JSON') }),
    async take(sent) {
      const opened = await openedForm(sent, limitBytes, isDecided);
      if (!opened.ok) return opened;
      form = opened.form;
      const { fields } = form;
      return noModelRequest(Object.fromEntries(fields), fields.get('provider') || named);
    },
    target: (parsedRequest) => chosenTarget(files, parsedRequest, providers),
    plan(input) {
      if (form === undefined) throw new Error('the form was not read');
      const { headers, ...upload } = formUpload(form, input, {
        change: (name, value) => (name === 'model' ? undefined : value),
        keepText: input.policy.capture === 'full',
        keepFiles: false,
      });
      return { ...createPlan(files, input, headers), ...upload };
    },
    streamOfRecorded: () => objectStream(),
  };
}

/** Body of `POST /v1/batches`, the members that the gateway reads: it has either a file or requests. */
export const batchRequestSchema = z.looseObject({
  input_file_id: z.string().min(1).nullish(),
  requests: inline.inlineRequests.nullish(),
  endpoint: z.string().min(1).nullish(),
  provider: z.string().nullish(),
  model: z.string().nullish(),
});

/** One dialect per request. */
export function batchDialect(request: ObjectRequest): ExchangeDialect {
  const { providers } = request;
  let requests: inline.InlineRequests | undefined;
  let endpoint = '';
  let route: inline.InlineRoute | undefined;
  return {
    name: 'forward',
    endpoint: batches.endpoint,
    mayBeFree: true,
    read(json) {
      const isInline = isObject(json) && (json.requests ?? null) !== null;
      const checked = checkRequest(batchRequestSchema, json, isInline ? [] : ['input_file_id']);
      if (!checked.ok) {
        return { ok: false, refusal: new Refusal({ ...checked.refusal, type: 'invalid_request_error' }) };
      }
      const { input_file_id: file, provider } = checked.request;
      if (isInline && (file ?? null) !== null) return { ok: false, refusal: conflictingTargets() };
      requests = checked.request.requests ?? undefined;
      if (requests !== undefined) {
        const one = inline.batchEndpointOf(requests, checked.request.endpoint ?? undefined);
        if (one instanceof Refusal) return { ok: false, refusal: one };
        endpoint = one;
      }
      return noModelRequest(checked.request, provider || request.provider);
    },
    async target(parsedRequest) {
      if (requests !== undefined) {
        const hint = parsedRequest.provider ?? modelIn(parsedRequest);
        const named =
          hint === undefined ? undefined : (await chosenTarget(batches, parsedRequest, providers)).provider.name;
        route = await inline.routeOf(
          requests.map(({ body }) => body.model),
          named,
          providers,
          { serves: takesInline, refused: (at, why) => inline.invalidRequest(at, why, 'body.model') },
        );
        return { provider: route.provider, model: '' };
      }
      const file = await remembered(files, String(parsedRequest.json.input_file_id), request.visibility, request);
      const isChosen =
        file === undefined || parsedRequest.provider !== undefined || modelIn(parsedRequest) !== undefined;
      const { provider } = isChosen
        ? await chosenTarget(batches, parsedRequest, providers)
        : { provider: ableProvider(batches, file.provider, providers) };
      return { provider, model: '' };
    },
    async plan(input) {
      const { json } = input.parsedRequest;
      const changes: Record<string, string | undefined> = { provider: undefined, model: undefined };
      if ((json.completion_window ?? null) === null) changes.completion_window = '"24h"';
      let parts: readonly WorkPart[] | undefined;
      if (route === undefined) {
        parts = await checkBatchFile(String(json.input_file_id), input, request);
      } else {
        const lines = inline.linesOf(input.body, endpoint, route);
        parts = await checkBatchLines(inline.inlineLines(lines), input, request);
        changes.requests = undefined;
        changes.endpoint = JSON.stringify(endpoint);
        changes.input_file_id = JSON.stringify(await inline.uploadLines(lines, input, request));
      }
      const head = createPlan(batches, input, jsonHeaders(input), {
        work: (id) => ({ kind: 'batch', id, parts }),
        madeOf: route === undefined ? String(json.input_file_id) : '',
      });
      return { ...head, body: rewriteMembers(input.body, changes), repeatable: false };
    },
    streamOfRecorded: () => objectStream(),
  };
}

function conflictingTargets(): Refusal {
  return refusals.invalidRequest("A batch has either 'input_file_id' or 'requests', not both.", 'requests');
}

/**
 * One dialect per request, for one file.
 * @param noteRead called once the caller's access to the file is checked, before the provider is called
 */
export function contentDialect(id: string, request: ObjectRequest, noteRead: () => Promise<void>): ExchangeDialect {
  const path = `${files.endpoint}/${encodeURIComponent(id)}/content`;
  const unparsed = (): ReadResult => noModelRequest({}, request.provider);
  return {
    name: 'forward',
    endpoint: '/v1/files/{id}/content',
    mayBeFree: true,
    read: unparsed,
    take: unparsed,
    async target() {
      const { provider } = await holderOf(files, id, request);
      await noteRead();
      return { provider, model: '' };
    },
    plan: () => ({
      kind: 'forward',
      dialect: 'forward',
      answer: 'anything',
      call: { method: 'GET', path, openAi: true, headers: { accept: '*/*' } },
      body: undefined,
      repeatable: true,
      digestOnly: true,
      verbatim: true,
      newStream: () => objectStream(),
    }),
    streamOfRecorded: () => objectStream(),
    answerHeaders({ headers }) {
      const returned: Record<string, string> = {};
      for (const name of ['content-type', 'content-length', 'content-disposition']) {
        const value = headers[name];
        if (value !== undefined) returned[name] = value;
      }
      return returned;
    },
  };
}

function modelIn({ json }: ParsedRequest): string | undefined {
  return typeof json.model === 'string' && json.model !== '' ? json.model : undefined;
}

async function chosenTarget(kind: ObjectKind, parsedRequest: ParsedRequest, providers: Providers): Promise<Target> {
  const provider = await chosenProvider(
    kind,
    { provider: parsedRequest.provider, model: modelIn(parsedRequest) },
    providers,
  );
  return { provider, model: '' };
}
