/**
 * Client secrets of realtime sessions: a browser gets one in place of a key. A secret states the key that created it, sealed
 * with the key for credentials, so each gateway and each worker with that key accepts it. The log has its hash and the
 * configuration of its sessions.
 */
import { hash, randomUUID } from 'node:crypto';
import { z } from 'zod';
import { clientSecretCreated } from '../../events/catalogue/realtime.ts';
import { type EventContext, streamName, type UserPath } from '../../events/event.ts';
import { type EventLog, LogUnavailable, whenNewerEvent } from '../../events/log.ts';
import { parseExactly } from '../../json/exact-json.ts';
import { isObject } from '../../json/is-object.ts';
import type { SealerSource } from '../credentials/sealed-credentials.ts';
import type { Caller } from '../model-request/model-request.ts';
import { refusals } from '../refusal.ts';

/** OpenAI's clients check that a secret begins with `ek_` before they use it in a browser. */
export const CLIENT_SECRET_PREFIX = 'ek_chancery_';

/** The place of a secret among sealed texts. */
const PLACE = ['realtime', 'client_secret'] as const;

const sealed = z.object({
  id: z.string(),
  /** Id of the managed key; null for the master key. */
  key: z.string().nullable(),
  path: z.string().nullable(),
  /** Of the master key, so that the secret ends with it. */
  master: z.string().nullable(),
  /** Hash of the secret of the key with which it was created; absent in client secrets of earlier versions. */
  secret: z.string().nullish(),
  expiresAt: z.number(),
});

export interface ClientSecret {
  readonly id: string;
  /** Undefined: the master key has created it. */
  readonly keyId: string | undefined;
  readonly userPath: UserPath | undefined;
  readonly masterHash: string | undefined;
  /** Hash of the secret of the key with which it was created: it ends with that. Undefined: with the key. */
  readonly secretHash: string | undefined;
  /** Milliseconds since the epoch. */
  readonly expiresAt: number;
}

/** Undefined for a text that no gateway with this key has sealed. */
export function openClientSecret(text: string, source: Pick<SealerSource, 'toOpen'>): ClientSecret | undefined {
  try {
    const given = sealed.parse(parseExactly(source.toOpen().open(...PLACE, text.slice(CLIENT_SECRET_PREFIX.length))));
    const { id, key, path, master, secret, expiresAt } = given;
    const userPath = path === null ? undefined : (path as UserPath);
    const [keyId, masterHash, secretHash] = [key ?? undefined, master ?? undefined, secret ?? undefined];
    return { id, keyId, userPath, masterHash, secretHash, expiresAt };
  } catch {
    return undefined;
  }
}

/** By which a secret of the master key is bound to it. */
export function masterHashOf(masterKey: string): string {
  return hash('sha256', `client secret ${masterKey}`);
}

/** `expires_after` of OpenAI's API. */
const SECONDS = z.number().int().min(10).max(7200);
const DEFAULT_SECONDS = 600;
const MAX_SESSION_BYTES = 256 * 1024;

export const clientSecretRequest = z.looseObject({
  expires_after: z
    .object({ anchor: z.literal('created_at').optional(), seconds: SECONDS.optional() })
    .optional()
    .describe('When the secret begins no session any more: 10 to 7200 seconds after its creation; default 600'),
  session: z
    .looseObject({
      type: z.string().optional().describe('`realtime` or `transcription`'),
      model: z.string().min(1).describe('Selector of the model, also of a virtual one'),
    })
    .describe('The configuration of its sessions'),
});

export interface CreatedSecret {
  readonly value: string;
  /** Unix seconds. */
  readonly expires_at: number;
  readonly session: Readonly<Record<string, unknown>>;
}

interface SecretDependencies {
  readonly log: EventLog;
  readonly sealers: SealerSource;
  /** Undefined where no key is needed. */
  readonly masterKey: string | undefined;
  now(): number;
}

/** Resolves when the secret is on record. @throws Refusal 400, 413, 503 */
export async function createClientSecret(
  given: z.infer<typeof clientSecretRequest>,
  caller: Caller,
  context: EventContext,
  { log, sealers, masterKey, now }: SecretDependencies,
): Promise<CreatedSecret> {
  const { session, expires_after: after } = given;
  const body = Buffer.from(JSON.stringify(session));
  if (body.length > MAX_SESSION_BYTES) throw refusals.bodyTooLarge(MAX_SESSION_BYTES);
  const id = randomUUID();
  const expiresAt = now() + (after?.seconds ?? DEFAULT_SECONDS) * 1000;
  const { key, userPath, secretHash } = caller;
  const stated: z.infer<typeof sealed> = {
    ...{ id, key: key?.id ?? null, path: userPath ?? null, secret: secretHash ?? null, expiresAt },
    master: key === undefined && masterKey !== undefined ? masterHashOf(masterKey) : null,
  };
  const value = CLIENT_SECRET_PREFIX + sealerFrom(sealers).seal(...PLACE, JSON.stringify(stated));
  const facts = { secretHash: hash('sha256', value), model: session.model, expiresAt };
  await log.append([
    {
      stream: streamName('realtime_secret', id),
      events: [clientSecretCreated.create(facts, context, body)],
      expectedRevision: 'noStream',
    },
  ]);
  const shown = { type: 'realtime', object: 'realtime.session', ...session };
  return { value, expires_at: Math.floor(expiresAt / 1000), session: shown };
}

/** The first use of a generated key for credentials writes it beside the log. @throws LogUnavailable */
function sealerFrom(sealers: SealerSource) {
  try {
    return sealers.toSeal();
  } catch (error) {
    const isOfDisk = error instanceof Error && 'syscall' in error;
    throw isOfDisk ? new LogUnavailable(error.message, 'none', error) : error;
  }
}

/**
 * The configuration of the sessions of a secret. Another gateway may have recorded it a moment ago.
 * @throws Refusal 401
 */
export async function sessionOfSecret(id: string, log: EventLog): Promise<Readonly<Record<string, unknown>>> {
  const stream = streamName('realtime_secret', id);
  await whenNewerEvent(stream, undefined, log);
  for await (const { body } of log.readStream(stream, { maxCount: 1 })) {
    const session = body === undefined ? undefined : parseExactly(Buffer.from(body).toString());
    if (isObject(session)) return session;
  }
  throw refusals.wrongKey();
}
