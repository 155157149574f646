/** What the routes of all administered objects share: members of their rows, and changes under `If-Match`. */
import type { FastifyReply, FastifyRequest } from 'fastify';
import { z } from 'zod';
import { type Decider, executeCommand, type HandleOptions } from '../../commands/handle-command.ts';
import { refusals } from '../../commands/refusal.ts';
import type { EventContext } from '../../events/event.ts';
import type { Saved } from '../../projections/administered.ts';
import { timeText } from '../dates.ts';
import { eventContextOf } from '../server.ts';
import { ifMatch, sendETag } from './conditional.ts';

/** The schema of `savedMembers`. */
export const savedAnswer = { created_at: z.iso.datetime(), updated_at: z.iso.datetime(), revision: z.string() };

/** The last members of a row; without a value for an object of the configuration. */
export function savedMembers(saved: Omit<Saved<unknown>, 'value'> | undefined) {
  return {
    created_at: saved && timeText(saved.createdAt),
    updated_at: saved && timeText(saved.updatedAt),
    revision: saved && String(saved.revision),
  };
}

/** The row of one object, with its revision as `ETag`: a row without one cannot be changed here. @throws Refusal 404 */
export function sendObject<Row extends { readonly revision?: string | undefined }>(
  reply: FastifyReply,
  row: Row | undefined,
  kind: string,
  name: string,
): Row {
  if (row === undefined) throw refusals.notFound(kind, name);
  if (row.revision !== undefined) sendETag(reply, row.revision);
  return row;
}

/** Who makes a change, and the revision that the caller read last. @throws Refusal 400 */
export interface RequestedChange {
  readonly context: EventContext;
  readonly ifRevision: bigint | 'noStream' | undefined;
}

export function changeIn(request: FastifyRequest): RequestedChange {
  return { context: eventContextOf(request), ifRevision: ifMatch(request) };
}

/** Executes the command of a route under its `If-Match`, and sends the new revision as `ETag`. @throws Refusal */
export async function executeChange<State, Command>(
  decider: Decider<State, Command>,
  command: Command,
  options: HandleOptions<State>,
  { request, reply }: { readonly request: FastifyRequest; readonly reply: FastifyReply },
): Promise<State> {
  const { state, revision } = await executeCommand(decider, command, { ifRevision: ifMatch(request), ...options });
  sendETag(reply, revision);
  return state;
}
