/**
 * A batch whose requests are in its body instead of a file: one provider is chosen for all of them, and the gateway
 * writes them to a file there, with the provider's own ids of the models. Everything else stays byte for byte.
 */
import { randomUUID } from 'node:crypto';
import { z } from 'zod';
import { parseExactly } from '../../json/exact-json.ts';
import type { Provider } from '../../providers/provider.ts';
import { elementsIn, membersIn, rewriteMembers } from '../../providers/translate/json.ts';
import type { PlanInput } from '../exchange/dialect.ts';
import { formEnd, PART_END, partHead } from '../exchange/dialects/forward/form.ts';
import { isRouteMissing, notServed } from '../model-request/forward-operations.ts';
import { askProvider } from '../provider-objects/ask-provider.ts';
import { batches, files, isObjectId, trackingWrite } from '../provider-objects/tracked.ts';
import { Refusal, refusals } from '../refusal.ts';
import type { Providers } from './holders.ts';
import type { BatchLines, ObjectDependencies } from './stored-objects.ts';

/** The limit that providers set for a file. */
const MAX_REQUESTS = 50_000;
/** Milliseconds allowed for the upload of the file. */
const UPLOAD_MS = 5 * 60_000;

const inlineRequest = z.looseObject({
  custom_id: z.string().min(1),
  method: z.string().nullish(),
  url: z.string().nullish(),
  body: z.looseObject({ model: z.string().min(1) }),
});

export const inlineRequests = z.array(inlineRequest).min(1).max(MAX_REQUESTS);

export type InlineRequests = z.infer<typeof inlineRequests>;

/** The endpoint that all requests of a batch share, or the refusal when they differ. */
export function batchEndpointOf(requests: InlineRequests, given: string | undefined): string | Refusal {
  const endpoint = given ?? requests[0]?.url ?? '';
  if (endpoint === '') return invalidRequest(0, "has no 'url', and the batch has no 'endpoint'", 'url');
  const ids = new Set<string>();
  for (const [at, { url, method, custom_id: id }] of requests.entries()) {
    if (url !== undefined && url !== null && url !== endpoint)
      return invalidRequest(at, 'is for another endpoint', 'url');
    if (method !== undefined && method !== null && method !== 'POST')
      return invalidRequest(at, 'is not a POST', 'method');
    if (ids.has(id)) return invalidRequest(at, `repeats the custom_id '${id}'`, 'custom_id');
    ids.add(id);
  }
  return endpoint;
}

/** The provider for the requests, and its ids of the models that they name. */
export interface InlineRoute {
  readonly provider: Provider;
  readonly models: ReadonlyMap<string, string>;
}

export interface InlineRules {
  /** Whether the provider has such batches. */
  serves(provider: Provider): boolean;
  /** The refusal of one request. @param at index of the request */
  refused(at: number, why: string): Refusal;
}

/**
 * The provider that serves every requested model, if the caller may use them; any candidate of a virtual model counts.
 * @param selectors of the requests, in their order
 * @param hint a provider's name or type, as the client sent it
 * @throws Refusal 400, also when there is no such provider; 501 when it has no such batches
 */
export async function routeOf(
  selectors: readonly string[],
  hint: string | undefined,
  providers: Providers,
  { serves, refused }: InlineRules,
): Promise<InlineRoute> {
  const bySelector = new Map<string, ReadonlyMap<Provider, string>>();
  let shared: readonly Provider[] = [];
  for (const [at, selector] of selectors.entries()) {
    if (bySelector.has(selector)) continue;
    const reached = await providers.reachableTargets(selector, hint);
    const able = new Map(
      reached.filter(({ provider }) => serves(provider)).map(({ provider, model }) => [provider, model]),
    );
    if (able.size === 0) throw notServed(batches);
    const before = shared;
    shared = bySelector.size === 0 ? [...able.keys()] : before.filter((provider) => able.has(provider));
    bySelector.set(selector, able);
    if (shared.length > 0) continue;
    const names = before.map(({ name }) => name).join(', ');
    throw refused(at, `names '${selector}', which is not of the provider of those before it (${names})`);
  }
  const [provider] = shared;
  if (provider === undefined) throw refusals.invalidRequest("'requests' is empty.", 'requests');
  const models = new Map<string, string>();
  for (const [selector, able] of bySelector) models.set(selector, able.get(provider) ?? selector);
  return { provider, models };
}

/** The lines of the file. @param body the client's body, with the lines in `requests` */
export function linesOf(body: Buffer, endpoint: string, { models }: InlineRoute): Buffer[] {
  const member = membersIn(body).findLast(({ name }) => name === 'requests');
  return elementsIn(member?.value ?? Buffer.from('[]')).map((element) => {
    const members = membersIn(element);
    const request = members.findLast(({ name }) => name === 'body')?.value ?? Buffer.from('{}');
    const model =
      membersIn(request)
        .findLast(({ name }) => name === 'model')
        ?.value.toString() ?? '""';
    const own = models.get(String(parseExactly(model)));
    const changed = own === undefined ? request : rewriteMembers(request, { model: JSON.stringify(own) });
    const line = rewriteMembers(element, {
      method: '"POST"',
      url: JSON.stringify(endpoint),
      body: changed.toString(),
    });
    return Buffer.from(line.toString().replaceAll(/[\r\n]+/g, ' '));
  });
}

/** The lines as a source for the checks of a file. */
export function inlineLines(lines: readonly Buffer[]): BatchLines {
  return {
    each(onLine) {
      for (const line of lines) onLine(parseExactly(line.toString()), line);
    },
    refused: (line, why) => invalidRequest(line - 1, `cannot be admitted: ${why}`),
  };
}

/**
 * Uploads the lines as a file to the provider. The file is recorded as the caller's before the batch is created.
 * @returns the id of the file
 * @throws Refusal
 */
export async function uploadLines(
  lines: readonly Buffer[],
  { target: { provider }, record }: Pick<PlanInput, 'target' | 'record'>,
  { log }: Pick<ObjectDependencies, 'log'>,
): Promise<string> {
  const boundary = `form-${randomUUID()}`;
  const pieces = [partHead(boundary, { name: 'purpose' }), Buffer.from('batch'), PART_END];
  pieces.push(partHead(boundary, { name: 'file', filename: 'batch.jsonl', contentType: 'application/jsonl' }));
  for (const line of lines) pieces.push(line, Buffer.from('\n'));
  pieces.push(PART_END, formEnd(boundary));
  const made = await askProvider(provider, {
    method: 'POST',
    path: files.endpoint,
    requestId: record.context.requestId ?? record.id,
    signal: AbortSignal.timeout(UPLOAD_MS),
    body: { type: `multipart/form-data; boundary=${boundary}`, bytes: Buffer.concat(pieces) },
  }).catch((error: unknown) => {
    throw error instanceof Refusal && isRouteMissing(error, '') ? notServed(files) : error;
  });
  if (made === undefined) throw notServed(files);
  const { id } = made;
  if (typeof id !== 'string' || !isObjectId(id)) {
    throw refusals.badAnswer(provider.name, `'${provider.name}' returned no id for the file.`);
  }
  const { owner, context } = record;
  await log.append([trackingWrite('file', id, provider, { owner, exchangeId: record.id }, context)]);
  return id;
}

export function invalidRequest(at: number, why: string, member?: string): Refusal {
  const param = `requests[${at}]${member === undefined ? '' : `.${member}`}`;
  return refusals.invalidRequest(`requests[${at}] ${why}.`, param, 'batch_request_invalid');
}
