/** `/admin/budgets`: spending limits by user path or label. */

import type { FastifyRequest } from 'fastify';
import { z } from 'zod';
import { authorityAt, highest } from '../../commands/access/authority.ts';
import type { KeyDirectory } from '../../commands/access/key-directory.ts';
import {
  type BudgetCommand,
  type BudgetSubject,
  budgetDecider,
  budgetStream,
  resetAllBudgets,
} from '../../commands/budgets/budget.ts';
import { MOST_USD, nanoOf } from '../../commands/budgets/money.ts';
import { type BudgetAnchors, budgetSettingsDecider, budgetSettingsStream } from '../../commands/budgets/settings.ts';
import { executeCommand } from '../../commands/handle-command.ts';
import { budgetPeriod } from '../../commands/period.ts';
import { refusals } from '../../commands/refusal.ts';
import type { EventLog } from '../../events/log.ts';
import { defaultAnchors } from '../../projections/budget-period.ts';
import { type BudgetSettings, type BudgetsState, budgetsView, settingsRevision } from '../../projections/budgets.ts';
import type { RunningProjection } from '../../projections/runner.ts';
import type { Routes } from '../api/route-schema.ts';
import type { Query } from '../query.ts';
import { callerOf, eventContextOf } from '../server.ts';
import { timeText } from '../time-text.ts';
import type { AsOf } from './as-of.ts';
import { budgetRows, oneBudget, type ReadSpent } from './budget-rows.ts';
import { ifMatch, sendETag } from './conditional.ts';
import { periodIn, periodMembers, subjectIn, subjectMembers, subjectOfPath } from './limit-subject.ts';
import { scopeOf } from './mount.ts';
import { requestedAsOf } from './page.ts';
import { readBody } from './read-body.ts';
import { confirmed, resetRequest } from './reset-request.ts';

export interface BudgetsOptions {
  readonly log: EventLog;
  /** Undefined while budgets are off. */
  readonly budgets: BudgetBooks | undefined;
  readonly asOf: AsOf;
  readonly keys: Pick<KeyDirectory, 'byId'>;
  /** Milliseconds since the epoch. */
  now(): number;
}

/** The budgets and their spending. */
export interface BudgetBooks extends Pick<RunningProjection<unknown>, 'whenProcessed'> {
  readonly state: BudgetsState;
  readonly spent: ReadSpent;
}

const amount = z.number({ error: 'it must be a number of US dollars' }).nullish();
const pathForm = z.strictObject({ amount });
const budgetName = z.strictObject({ ...subjectMembers, budget_key: z.strictObject(periodMembers).optional() });
const newBudget = budgetName.extend({ amount });
const oneReset = z.strictObject({ ...subjectMembers, ...periodMembers });

const whole = (least: number, most: number) =>
  z
    .number()
    .refine((value) => Number.isInteger(value) && value >= least && value <= most, {
      error: `it must be a whole number from ${least} to ${most}`,
    })
    .optional();
const newSettings = z.strictObject({
  daily_reset_hour: whole(0, 23),
  daily_reset_minute: whole(0, 59),
  weekly_reset_weekday: whole(0, 6),
  weekly_reset_hour: whole(0, 23),
  weekly_reset_minute: whole(0, 59),
  monthly_reset_day: whole(1, 31),
  monthly_reset_hour: whole(0, 23),
  monthly_reset_minute: whole(0, 59),
});

const scoped = { config: { access: 'scoped-admin' } } as const;
const shown = { config: { access: 'scoped-admin', etag: true } } as const;
const changes = { config: { access: 'scoped-admin', ifMatch: '/budgets/:user_path/:period' } } as const;
const global = { config: { access: 'global-admin' } } as const;
const settingsChange = { config: { access: 'global-admin', ifMatch: '/budgets/settings' } } as const;
const scopes = ['user_path', 'label'] as const;
const settingsDecider = budgetSettingsDecider(defaultAnchors);

interface Named {
  readonly user_path: string;
  readonly period: string;
}

export function registerBudgets(admin: Routes, options: BudgetsOptions): void {
  const { log, asOf, keys, now } = options;

  /** @throws Refusal 503 while budgets are off */
  const books = (): BudgetBooks => {
    if (options.budgets !== undefined) return options.budgets;
    throw refusals.featureUnavailable('Budgets are off here: they take BUDGETS_ENABLED and USAGE_ENABLED.');
  };

  const list = (request: FastifyRequest) => {
    const { state, spent } = books();
    const at = now();
    return { budgets: budgetRows(state, { spent, at, scope: scopeOf(request) }), server_time: timeText(at) };
  };

  async function execute(
    of: BudgetSubject,
    command: BudgetCommand,
    request: FastifyRequest,
  ): Promise<bigint | 'noStream'> {
    const ifRevision = ifMatch(request);
    const stream = budgetStream(of);
    const { position, revision } = await executeCommand(budgetDecider, command, { log, stream, ifRevision });
    if (position !== undefined) await books().whenProcessed(position);
    return revision;
  }

  const byOf = (request: FastifyRequest, { scope, subject }: BudgetSubject) => ({
    context: eventContextOf(request),
    authority: scope === 'user_path' ? authorityAt(subject, callerOf(request), keys) : highest,
  });

  /** With `?scope=label` the first segment is a label. */
  const named = (request: FastifyRequest<{ Params: Named }>) => ({
    of: subjectIn(request, subjectOfPath(request, request.params.user_path), scopes),
    periodSeconds: periodIn({ period: request.params.period }, budgetPeriod),
  });

  admin.get('/budgets', scoped, async (request) => {
    const moment = await asOf.moment(requestedAsOf(request));
    if (moment === undefined) return list(request);
    books();
    const state = await asOf.fold(budgetsView, moment);
    const rows = budgetRows(state, { spent: () => undefined, at: moment.at, scope: scopeOf(request) });
    return { budgets: rows, server_time: timeText(now()) };
  });

  admin.get<{ Params: Named; Querystring: Query }>('/budgets/:user_path/:period', shown, async (request, reply) => {
    const { of, periodSeconds } = named(request);
    const moment = await asOf.moment(requestedAsOf(request));
    const { state, spent } = books();
    const row =
      moment === undefined
        ? oneBudget({ ...of, periodSeconds }, state, spent, now())
        : oneBudget({ ...of, periodSeconds }, await asOf.fold(budgetsView, moment), () => undefined, moment.at);
    if (row === undefined) throw refusals.notFound('budget', `${of.subject} ${request.params.period}`);
    sendETag(reply, row.revision ?? 'noStream');
    return row;
  });

  admin.put('/budgets', changes, async (request, reply) => {
    const input = readBody(request, newBudget);
    const of = subjectIn(request, input, scopes);
    const periodSeconds = periodIn(input.budget_key, budgetPeriod, 'budget_key.');
    const nano = nanoIn(input.amount);
    books();
    const command = { do: 'set', of, periodSeconds, amount: nano, ...byOf(request, of) } as const;
    sendETag(reply, await execute(of, command, request));
    return list(request);
  });

  admin.delete('/budgets', changes, async (request) => {
    const input = readBody(request, budgetName);
    const of = subjectIn(request, input, scopes);
    const periodSeconds = periodIn(input.budget_key, budgetPeriod, 'budget_key.');
    books();
    await execute(of, { do: 'remove', of, periodSeconds, ...byOf(request, of) }, request);
    return list(request);
  });

  admin.put<{ Params: Named }>('/budgets/:user_path/:period', changes, async (request, reply) => {
    const { of, periodSeconds } = named(request);
    const nano = nanoIn(readBody(request, pathForm).amount);
    books();
    const command = { do: 'set', of, periodSeconds, amount: nano, ...byOf(request, of) } as const;
    sendETag(reply, await execute(of, command, request));
    return list(request);
  });

  admin.delete<{ Params: Named }>('/budgets/:user_path/:period', changes, async (request) => {
    const { of, periodSeconds } = named(request);
    books();
    await execute(of, { do: 'remove', of, periodSeconds, ...byOf(request, of) }, request);
    return list(request);
  });

  admin.post('/budgets/reset-one', changes, async (request) => {
    const input = readBody(request, oneReset);
    const of = subjectIn(request, input, scopes);
    const periodSeconds = periodIn(input, budgetPeriod);
    books();
    await execute(of, { do: 'reset', of, periodSeconds, ...byOf(request, of) }, request);
    return list(request);
  });

  admin.post('/budgets/reset', global, async (request) => {
    confirmed(readBody(request, resetRequest));
    const { state, whenProcessed } = books();
    const position = await resetAllBudgets(state.rules.values(), eventContextOf(request), log);
    if (position !== undefined) await whenProcessed(position);
    return { status: 'ok' };
  });

  admin.get('/budgets/settings', shown, (_request, reply) => {
    const { state } = books();
    sendETag(reply, settingsRevision(state) ?? 'noStream');
    return settingsView(state.settings);
  });

  admin.put('/budgets/settings', settingsChange, async (request, reply) => {
    const input = readBody(request, newSettings);
    const { whenProcessed } = books();
    const { position, revision } = await executeCommand(
      settingsDecider,
      { changes: anchorsIn(input), context: eventContextOf(request) },
      { log, stream: budgetSettingsStream, ifRevision: ifMatch(request) },
    );
    if (position !== undefined) await whenProcessed(position);
    sendETag(reply, revision);
    return settingsView(books().state.settings);
  });
}

/** Nano-dollars. @throws Refusal 400 */
function nanoIn(usd: number | null | undefined): number {
  const nano = usd === null || usd === undefined ? undefined : nanoOf(usd);
  if (nano !== undefined) return nano;
  throw refusals.invalidRequest(`'amount' must be US dollars, more than 0 and at most ${MOST_USD}.`, 'amount');
}

function anchorsIn(input: z.infer<typeof newSettings>): { [Name in keyof BudgetAnchors]: number | undefined } {
  return {
    dailyResetHour: input.daily_reset_hour,
    dailyResetMinute: input.daily_reset_minute,
    weeklyResetWeekday: input.weekly_reset_weekday,
    weeklyResetHour: input.weekly_reset_hour,
    weeklyResetMinute: input.weekly_reset_minute,
    monthlyResetDay: input.monthly_reset_day,
    monthlyResetHour: input.monthly_reset_hour,
    monthlyResetMinute: input.monthly_reset_minute,
  };
}

function settingsView(settings: BudgetSettings) {
  return {
    daily_reset_hour: settings.dailyResetHour,
    daily_reset_minute: settings.dailyResetMinute,
    weekly_reset_weekday: settings.weeklyResetWeekday,
    weekly_reset_hour: settings.weeklyResetHour,
    weekly_reset_minute: settings.weeklyResetMinute,
    monthly_reset_day: settings.monthlyResetDay,
    monthly_reset_hour: settings.monthlyResetHour,
    monthly_reset_minute: settings.monthlyResetMinute,
    updated_at: settings.updatedAt === undefined ? null : timeText(settings.updatedAt),
  };
}
