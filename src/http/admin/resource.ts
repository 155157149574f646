/** What the routes of all administered objects share: members of their rows, and changes under `If-Match`. */
import type { FastifyReply, FastifyRequest, RouteShorthandOptions } from 'fastify';
import { z } from 'zod';
import { type ObjectCommand, objectDecider } from '../../commands/administered.ts';
import {
  type Decider,
  executeCommand,
  type HandleOptions,
  type RequestedChange,
} from '../../commands/handle-command.ts';
import { refusals } from '../../commands/refusal.ts';
import { streamName, type UserPath } from '../../events/event.ts';
import type { EventLog } from '../../events/log.ts';
import {
  type AdministeredKind,
  administeredView,
  type Saved,
  type SavedObjects,
} from '../../projections/administered.ts';
import type { RunningProjection } from '../../projections/runner.ts';
import type { Routes } from '../api/route-schema.ts';
import { timeText } from '../dates.ts';
import { sendRows } from '../paging.ts';
import { eventContextOf } from '../server.ts';
import { isWithin, scopeOf } from './admin-scope.ts';
import type { AsOf } from './as-of.ts';
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

/** @throws Refusal 400 */
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

interface ResourceRoutes<Schema extends z.ZodObject, Body> {
  readonly kind: AdministeredKind<Schema>;
  /** The category of its streams: `<category>-<key>`. */
  readonly category: string;
  /** In errors: `pricing override`. */
  readonly noun: string;
  readonly path: string;
  /** Made by `scopedAdmin` or `globalAdmin`. The body of `save` is parsed as `Body`, that of `remove` names the object. */
  readonly routes: Readonly<Record<'list' | 'get' | 'save' | 'remove', RouteShorthandOptions>>;
  /** The key in its stored form. @throws Refusal 400 */
  keyOf(given: string): string;
  /** @param scope of the caller. @throws Refusal 400 for a value that cannot be saved */
  parseValue(body: Body, saved: SavedObjects<z.infer<Schema>>, scope: UserPath | undefined): z.infer<Schema>;
  /** The row without `savedMembers`. Default: the value. */
  rowOf?(value: z.infer<Schema>): object;
  /** The user path that the object is for: an administrator of a subtree has only the objects within it. */
  pathOf?(value: z.infer<Schema>): UserPath | undefined;
}

export interface ResourceParts<Value> {
  readonly log: EventLog;
  readonly asOf: AsOf;
  readonly view: Pick<RunningProjection<SavedObjects<Value>>, 'state' | 'whenProcessed'>;
}

/**
 * The routes of one kind of object: its list, one of them, both also as of a past moment; saving and removing, under
 * `If-Match`. Objects outside the scope of the caller are answered as unknown ones.
 */
export function registerResource<Schema extends z.ZodObject, Body>(
  admin: Routes,
  { kind, category, noun, path, routes, keyOf, parseValue, ...more }: ResourceRoutes<Schema, Body>,
  { log, asOf, view }: ResourceParts<z.infer<Schema>>,
): void {
  type Value = z.infer<Schema>;
  type AsOfQuery = { readonly as_of: string | undefined };
  const { rowOf = (value: Value): object => value, pathOf } = more;
  const decider = objectDecider(kind, noun);
  const projection = administeredView(kind);

  const isVisible = (value: Value, scope: UserPath | undefined) =>
    pathOf === undefined || isWithin(scope, pathOf(value));

  function rowAt({ byKey }: SavedObjects<Value>, key: string, scope: UserPath | undefined) {
    const saved = byKey.get(key);
    if (saved === undefined || !isVisible(saved.value, scope)) return undefined;
    return { ...rowOf(saved.value), ...savedMembers(saved) };
  }

  function execute(
    key: string,
    change: { readonly kind: 'save'; readonly value: Value } | { readonly kind: 'remove' },
    at: { readonly request: FastifyRequest; readonly reply: FastifyReply },
  ) {
    const scope = scopeOf(at.request);
    const context = eventContextOf(at.request);
    const command = { key, context, isVisible: (value: Value) => isVisible(value, scope), ...change };
    const options = { log, stream: streamName(category, key), whenProcessed: view.whenProcessed };
    return executeChange<Value | undefined, ObjectCommand<Value>>(decider, command, options, at);
  }

  admin.get(path, routes.list, async (request, reply) => {
    const state = await asOf.state((request.query as AsOfQuery).as_of, projection, view);
    const scope = scopeOf(request);
    return sendRows(
      reply,
      rowsOf([...state.byKey.keys()].sort(), (key) => rowAt(state, key, scope)),
    );
  });

  admin.get(`${path}/:${kind.key}`, routes.get, async (request, reply) => {
    const key = keyOf((request.params as Readonly<Record<string, string>>)[kind.key] ?? '');
    const state = await asOf.state((request.query as AsOfQuery).as_of, projection, view);
    return sendObject(reply, rowAt(state, key, scopeOf(request)), noun, key);
  });

  admin.put(path, routes.save, async (request, reply) => {
    const scope = scopeOf(request);
    const value = parseValue(request.body as Body, view.state, scope);
    if (scope !== undefined && !isVisible(value, scope)) {
      throw refusals.userPathOutOfScope(pathOf?.(value) ?? '/', scope, 'user_path');
    }
    const key = String(value[kind.key]);
    await execute(key, { kind: 'save', value }, { request, reply });
    const row = rowAt(view.state, key, scope);
    if (row === undefined) throw refusals.changedMeanwhile(key);
    return row;
  });

  admin.delete(path, routes.remove, async (request, reply) => {
    const named: Readonly<Record<string, string>> = Object.assign({}, request.query, request.body);
    const given = named[kind.key];
    if (given === undefined) throw refusals.missingParameter(kind.key);
    await execute(keyOf(given), { kind: 'remove' }, { request, reply });
    return reply.status(204).send();
  });
}

function* rowsOf(keys: readonly string[], rowOf: (key: string) => object | undefined): Generator<object> {
  for (const key of keys) {
    const row = rowOf(key);
    if (row !== undefined) yield row;
  }
}
