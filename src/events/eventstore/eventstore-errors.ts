/** Errors of the client as errors of the port. The client's messages contain neither the address nor the password. */
import { AccessDeniedError } from '@eventstore/db-client';
import { EngineDamaged, EngineUnavailable, EngineUnsuitable, PlaceLost } from '../replicated/engine.ts';

/** Statuses of gRPC. */
const permissionDenied = 7;
const unauthenticated = 16;

export function isAccessDenied(error: unknown): boolean {
  return error instanceof AccessDeniedError || [permissionDenied, unauthenticated].includes(codeOf(error));
}

/** Whether the call was not sent at all: nothing of it can be on the server. */
export function wasNotSent(error: unknown): boolean {
  return /No connection established|Failed to discover|ECONNREFUSED/.test(messageOf(error));
}

export function engineErrorOf(error: unknown, action: string): Error {
  if (error instanceof EngineUnavailable || error instanceof EngineUnsuitable) return error;
  if (error instanceof PlaceLost || error instanceof EngineDamaged) return error;
  if (isAccessDenied(error)) return new EngineUnsuitable(deniedReason(action));
  const message = messageOf(error);
  const hint = /Last error: Failed to connect/.test(message) ? '; servers with TLS (tls=true) do so' : '';
  return new EngineUnavailable(`EventStoreDB cannot be used (${action}): ${message}${hint}`, 'none');
}

export function deniedReason(action: string): string {
  return `EventStoreDB refuses access (${action}): the user and the password must be valid, and the user must be allowed to read $all (by default only members of $admins are); the client sends them with TLS only`;
}

export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

function codeOf(error: unknown): number {
  return error instanceof Error && 'code' in error && typeof error.code === 'number' ? error.code : -1;
}
