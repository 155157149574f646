/** User and password of a call, as EventStoreDB checks them. Without users everything is allowed: an insecure server. */
import { Metadata, status } from '@grpc/grpc-js';

export interface Users {
  /** Passwords by name. The user `admin` may read `$all`; others may not. */
  readonly [name: string]: string;
}

export interface Refusal {
  readonly code: number;
  readonly details: string;
  readonly metadata: Metadata;
}

export function refusalOf(users: Users | undefined, call: Metadata, readsAll: boolean): Refusal | undefined {
  if (users === undefined) return undefined;
  const [header = ''] = call.get('authorization');
  const [name = '', password] = Buffer.from(String(header).replace(/^Basic /, ''), 'base64')
    .toString()
    .split(':');
  if (password === undefined || users[name] !== password) {
    return { code: status.UNAUTHENTICATED, details: 'Unauthenticated', metadata: new Metadata() };
  }
  if (!readsAll || name === 'admin') return undefined;
  return exception(status.PERMISSION_DENIED, 'Access denied', { exception: 'access-denied' });
}

/** The answer of a node that is not the leader to a call that requires it. */
export function redirectionOf(leaderPort: number | undefined, call: Metadata): Refusal | undefined {
  if (leaderPort === undefined || call.get('requires-leader')[0] !== 'true') return undefined;
  const leader = { 'leader-endpoint-host': '127.0.0.1', 'leader-endpoint-port': String(leaderPort) };
  return exception(status.NOT_FOUND, 'Leader info available', { exception: 'not-leader', ...leader });
}

/** An error as the server sends it: the client recognises it by the metadata. */
export function exception(code: number, details: string, values: Readonly<Record<string, string>>): Refusal {
  const metadata = new Metadata();
  for (const [name, value] of Object.entries(values)) metadata.set(name, value);
  return { code, details, metadata };
}
