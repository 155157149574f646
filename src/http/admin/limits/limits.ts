/** The routes of budgets and of rate limits: the rules with what is used of them, and changes of a rule. */
import type { FastifyReply, FastifyRequest } from 'fastify';
import { z } from 'zod';
import { type Authority, authorityAt, highest } from '../../../commands/access/authority.ts';
import type { KeyDirectory } from '../../../commands/access/key-directory.ts';
import { executeCommand } from '../../../commands/handle-command.ts';
import { type LimitCommand, type LimitKind, limitDecider, resetLimits } from '../../../commands/limits/limit.ts';
import { refusals } from '../../../commands/refusal.ts';
import type { EpochMs, EventContext, Position } from '../../../events/event.ts';
import type { EventLog } from '../../../events/log.ts';
import {
  type LimitName,
  type LimitRules,
  type LimitSubject,
  type LimitTimes,
  limitKey,
  subjectKey,
} from '../../../projections/limits.ts';
import type { Projection } from '../../../projections/projection.ts';
import { jsonAnswer, type Routes, scopedAdmin } from '../../api/route-schema.ts';
import { timeText } from '../../dates.ts';
import { callerOf, eventContextOf } from '../../server.ts';
import { scopeOf } from '../admin-scope.ts';
import type { AsOf } from '../as-of.ts';
import { ifMatch, sendETag } from '../conditional.ts';
import { asOfQuery, confirmed, resetRoute } from '../parameters.ts';
import {
  isSubjectWithin,
  type PeriodInput,
  periodIn,
  periodMembers,
  ruleMembers,
  type SubjectInput,
  subjectIn,
  subjectMembers,
} from './limit-subject.ts';

/** The rules in force, and what is used of them. */
export interface LimitView<State, Used> {
  readonly state: State;
  whenProcessed(position: Position): Promise<void>;
  used(rule: LimitName): Used | undefined;
}

/** Where the routes read and write. */
export interface LimitParts<State, Used> {
  readonly log: EventLog;
  /** Undefined while such limits are off. */
  readonly view: LimitView<State, Used> | undefined;
  readonly asOf: AsOf;
  readonly keys: Pick<KeyDirectory, 'byId'>;
  now(): EpochMs;
}

type PeriodKey = 'budget_key' | 'limit_key';
type NamedBody = SubjectInput & Readonly<Partial<Record<PeriodKey, PeriodInput>>>;

/** What differs between the routes of budgets and of rate limits. */
interface LimitRoutes<Scope extends string, Value extends object, Rule, Extra, Used, Input> {
  readonly kind: LimitKind<Scope, Value>;
  readonly projection: Projection<LimitRules<Rule> & Extra>;
  readonly path: string;
  /** The route of one rule below `path`. */
  readonly one: string;
  /** In operation ids. */
  readonly name: string;
  /** The member of an answer that has the rules. */
  readonly list: string;
  /** The member of a body that has the period. */
  readonly period: PeriodKey;
  /** In the order of the list; the first is the default. */
  readonly scopes: readonly Scope[];
  /** The names of periods, for the document. */
  readonly periods: string;
  readonly row: z.ZodType;
  /** Members of a body that have the value of a rule. */
  readonly input: z.ZodRawShape;
  readonly example: { readonly period: string; readonly value: object };
  readonly text: Readonly<Record<'answer' | 'list' | 'save' | 'saved' | 'reset' | 'resetAll' | 'off', string>>;
  /** Whether a list of a past time has the time of that state. */
  readonly hasStateAt: boolean;
  /** @throws Refusal 400 */
  valueIn(input: Input, periodSeconds: number): Value;
  valueMembers(rule: Rule & LimitTimes): object;
  /** @param used undefined when it is unknown: at a past time. @param at milliseconds since the epoch */
  usedMembers(rule: Rule & LimitTimes, used: Used | undefined, at: number, state: LimitRules<Rule> & Extra): object;
}

interface LimitAuthor<Scope extends string> {
  readonly of: LimitSubject<Scope>;
  readonly context: EventContext;
  readonly authority: Authority;
}

/** @throws Refusal 400 for a subject that no new rule can have */
type CheckSubject<Scope extends string> = (of: LimitSubject<Scope>) => void;

function bodyOf<Value>(members: z.ZodRawShape): z.ZodType<Value> {
  return z.strictObject(members) as never;
}

/** The routes, and what those for the address of one rule have in common with them. */
export function limitRoutes<
  Scope extends string,
  Value extends object,
  Rule extends LimitName<Scope>,
  Extra,
  Used,
  Input,
>(routes: LimitRoutes<Scope, Value, Rule, Extra, Used, Input>) {
  type State = LimitRules<Rule> & Extra;
  const { kind, path, name, scopes, text } = routes;
  const decider = limitDecider(kind);
  const rank = new Map<string, number>(scopes.map((scope, place) => [scope, place]));
  const list = z.object({
    [routes.list]: z.array(routes.row),
    server_time: z.string(),
    ...(routes.hasStateAt && { state_at: z.string().optional().describe('With `as_of`: the time of that state') }),
  });
  const changes = { ifMatch: `${path}${routes.one}`, response: { 200: jsonAnswer(text.answer, list) } } as const;
  const period = periodMembers(routes.periods);
  const subject = subjectMembers(scopes);
  const named = { ...subject, [routes.period]: z.strictObject(period).optional().describe('Required: the period') };
  const exampleName = { user_path: '/team/alpha', [routes.period]: { period: routes.example.period } };

  const listRules = scopedAdmin(`list${name}s`, text.list, { querystring: asOfQuery, response: changes.response });
  const saveRule = scopedAdmin(`save${name}`, text.save, {
    ...changes,
    description: text.saved,
    body: bodyOf<NamedBody>({ ...named, ...routes.input }),
    example: { ...exampleName, ...routes.example.value },
  });
  const deleteRule = scopedAdmin(`delete${name}`, `Delete a ${kind.noun}`, {
    ...changes,
    body: bodyOf<NamedBody>(named),
    example: exampleName,
    errors: [404],
  });
  const resetRule = scopedAdmin(`reset${name}`, text.reset, {
    ...changes,
    body: bodyOf<SubjectInput & NonNullable<PeriodInput>>({ ...subject, ...period }),
    example: { user_path: '/team/alpha', period: routes.example.period },
    errors: [404],
  });
  const resetRules = resetRoute(`reset${name}s`, text.resetAll);

  function rowOf(rule: Rule & LimitTimes, state: State, used: Used | undefined, at: number) {
    return {
      ...ruleMembers(rule, kind.periodLabel),
      ...routes.valueMembers(rule),
      created_at: timeText(rule.createdAt),
      updated_at: timeText(rule.updatedAt),
      revision: state.revisions.get(subjectKey(rule.scope, rule.subject)),
      ...routes.usedMembers(rule, used, at, state),
    };
  }

  function inOrder(a: LimitName, b: LimitName): number {
    if (a.scope !== b.scope) return (rank.get(a.scope) ?? 0) - (rank.get(b.scope) ?? 0);
    if (a.subject !== b.subject) return a.subject < b.subject ? -1 : 1;
    return b.periodSeconds - a.periodSeconds;
  }

  function register(
    admin: Routes,
    { log, asOf, keys, now, ...parts }: LimitParts<State, Used>,
    check?: CheckSubject<Scope>,
  ) {
    /** @throws Refusal 503 while such limits are off */
    function view(): LimitView<State, Used> {
      if (parts.view === undefined) throw refusals.featureUnavailable(text.off);
      return parts.view;
    }

    /** The rules now, or as of the given moment, when it is unknown what was used of them. */
    async function rulesAt(given: string | undefined) {
      const moment = await asOf.moment(given);
      const current = view();
      const time = now();
      if (moment === undefined) {
        return { state: current.state, used: (rule: Rule) => current.used(rule), at: time, time, stateAt: undefined };
      }
      const { at } = moment;
      return { state: await asOf.fold(routes.projection, moment), used: () => undefined, at, time, stateAt: at };
    }

    /** The rules that the caller may see. */
    async function listed(request: FastifyRequest, given?: string) {
      const { state, used, at, time, stateAt } = await rulesAt(given);
      const scope = scopeOf(request);
      const visible = [...state.rules.values()].filter((rule) => isSubjectWithin(scope, rule)).sort(inOrder);
      return {
        [routes.list]: visible.map((rule) => rowOf(rule, state, used(rule), at)),
        server_time: timeText(time),
        ...(routes.hasStateAt && stateAt !== undefined ? { state_at: timeText(stateAt) } : {}),
      };
    }

    function execute(
      { scope, subject }: LimitName<Scope>,
      commandOf: (by: LimitAuthor<Scope>) => LimitCommand<Scope, Value>,
      request: FastifyRequest,
    ) {
      const { whenProcessed } = view();
      const of = { scope, subject };
      const command = commandOf({
        of,
        context: eventContextOf(request),
        authority: scope === 'user_path' ? authorityAt(subject, callerOf(request), keys) : highest,
      });
      const options = { log, stream: kind.streamOf(of), ifRevision: ifMatch(request), whenProcessed };
      return executeCommand(decider, command, options);
    }

    /** The rule that a body names. */
    const inBody = (request: FastifyRequest<{ Body: NamedBody }>): LimitName<Scope> => {
      const of = subjectIn(request, request.body, scopes);
      return { ...of, periodSeconds: periodIn(request.body[routes.period], kind.periodOf, `${routes.period}.`) };
    };

    async function save(limit: LimitName<Scope>, input: Input, request: FastifyRequest, reply: FastifyReply) {
      const { periodSeconds } = limit;
      const value = routes.valueIn(input, periodSeconds);
      const { revision } = await execute(limit, (by) => ({ ...by, do: 'set', periodSeconds, value }), request);
      sendETag(reply, revision);
      return listed(request);
    }

    async function change(kind: 'remove' | 'reset', limit: LimitName<Scope>, request: FastifyRequest) {
      await execute(limit, (by) => ({ ...by, do: kind, periodSeconds: limit.periodSeconds }), request);
      return listed(request);
    }

    admin.get(path, listRules, async (request) => listed(request, request.query.as_of));

    admin.put(path, saveRule, async (request, reply) => {
      const of = subjectIn(request, request.body, scopes);
      check?.(of);
      const periodSeconds = periodIn(request.body[routes.period], kind.periodOf, `${routes.period}.`);
      return save({ ...of, periodSeconds }, request.body as NamedBody & Input, request, reply);
    });

    admin.delete(path, deleteRule, async (request) => change('remove', inBody(request), request));

    admin.post(`${path}/reset-one`, resetRule, async (request) => {
      const of = subjectIn(request, request.body, scopes);
      return change('reset', { ...of, periodSeconds: periodIn(request.body, kind.periodOf) }, request);
    });

    admin.post(`${path}/reset`, resetRules, async (request) => {
      confirmed(request.body);
      const { state, whenProcessed } = view();
      const position = await resetLimits(kind, state.rules.values(), eventContextOf(request), log);
      if (position !== undefined) await whenProcessed(position);
      return { status: 'ok' };
    });

    return {
      view,
      save,
      remove: (limit: LimitName<Scope>, request: FastifyRequest) => change('remove', limit, request),
      /** The row of one rule, with its `ETag`. @param named for the error 404 */
      async show(limit: LimitName<Scope>, named: string, given: string | undefined, reply: FastifyReply) {
        const { state, used, at } = await rulesAt(given);
        const rule = state.rules.get(limitKey(limit));
        if (rule === undefined) throw refusals.notFound(kind.noun, named);
        const row = rowOf(rule, state, used(rule), at);
        sendETag(reply, row.revision ?? 'noStream');
        return row;
      },
    };
  }

  return { changes, register };
}
