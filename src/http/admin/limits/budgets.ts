/** `/admin/budgets`: spending limits by user path or label. */
import type { FastifyReply, FastifyRequest } from 'fastify';
import { z } from 'zod';
import { authorityAt, highest } from '../../../commands/access/authority.ts';
import type { KeyDirectory } from '../../../commands/access/key-directory.ts';
import {
  type BudgetCommand,
  type BudgetSubject,
  budgetDecider,
  budgetStream,
  MOST_USD,
  nanoOf,
  resetAllBudgets,
} from '../../../commands/budgets/budget.ts';
import { executeCommand } from '../../../commands/handle-command.ts';
import { budgetPeriod } from '../../../commands/period.ts';
import { refusals } from '../../../commands/refusal.ts';
import type { EventLog } from '../../../events/log.ts';
import { budgetsView } from '../../../projections/budgets.ts';
import { queryOfParameters } from '../../api/parameters.ts';
import { jsonAnswer, pathParameters, type Routes, scopedAdmin } from '../../api/route-schema.ts';
import { timeText } from '../../dates.ts';
import { callerOf, eventContextOf } from '../../server.ts';
import { scopeOf } from '../admin-scope.ts';
import type { AsOf } from '../as-of.ts';
import { ifMatch, sendETag } from '../conditional.ts';
import { asOfParameter, asOfQuery, confirmed, resetRoute } from '../parameters.ts';
import {
  type BudgetBooks,
  budgetAnswer,
  budgetRows,
  oneBudget,
  registerBudgetSettings,
  unknownFigures,
} from './budget-rows.ts';
import {
  periodIn,
  periodMembers,
  periodParameter,
  scopeParameter,
  subjectIn,
  subjectMembers,
  subjectOfPath,
} from './limit-subject.ts';

interface BudgetsOptions {
  readonly log: EventLog;
  /** Undefined while budgets are off. */
  readonly budgets: BudgetBooks | undefined;
  readonly asOf: AsOf;
  readonly keys: Pick<KeyDirectory, 'byId'>;
  /** Milliseconds since the epoch. */
  now(): number;
}

const scopes = ['user_path', 'label'] as const;
const amount = z
  .number({ error: 'it must be a number of US dollars' })
  .nullish()
  .describe(`Required: US dollars, more than 0 and at most ${MOST_USD}`);
const period = periodMembers('`hourly`, `daily`, `weekly`, `monthly`');
const subject = subjectMembers(scopes);
const budgetName = z.strictObject({
  ...subject,
  budget_key: z.strictObject(period).optional().describe('Required: the period'),
});
const budgetList = z.object({
  budgets: z.array(budgetAnswer),
  server_time: z.string(),
  state_at: z.string().optional().describe('With `as_of`: the time of that state'),
});

const params = pathParameters({ user_path: 'A user path or a label, percent-encoded', period: periodParameter });
const querystring = queryOfParameters({ scope: scopeParameter(scopes) });
const changes = { ifMatch: '/budgets/:user_path/:period' } as const;
const response = { 200: jsonAnswer('The budgets in the scope of the caller', budgetList) };

const listBudgets = scopedAdmin('listBudgets', 'List budgets with their spending and reservations', {
  querystring: asOfQuery,
  response,
});

const getBudget = scopedAdmin('getBudget', 'Get one budget with its spending and reservations', {
  etag: true,
  description: '`ETag` is the revision of the budgets of its subject.',
  params,
  querystring: queryOfParameters({ scope: scopeParameter(scopes), as_of: asOfParameter }),
  response: { 200: jsonAnswer('The budget', budgetAnswer) },
  errors: [404],
});

const saveBudget = scopedAdmin('saveBudget', 'Create a budget, or change its amount', {
  ...changes,
  description: 'The current period continues, with its spending so far.',
  body: budgetName.extend({ amount }),
  example: { user_path: '/team/alpha', budget_key: { period: 'monthly' }, amount: 50 },
  response,
});

const deleteBudget = scopedAdmin('deleteBudget', 'Delete a budget', {
  ...changes,
  body: budgetName,
  example: { user_path: '/team/alpha', budget_key: { period: 'monthly' } },
  response,
  errors: [404],
});

const saveBudgetOfPath = scopedAdmin(
  'saveBudgetOfPath',
  'Create the budget of a user path or label, or change its amount',
  {
    ...changes,
    params,
    querystring,
    body: z.strictObject({ amount }),
    example: { amount: 50 },
    response,
  },
);

const deleteBudgetOfPath = scopedAdmin('deleteBudgetOfPath', 'Delete the budget of a user path or label', {
  ...changes,
  params,
  querystring,
  response,
  errors: [404],
});

const resetBudget = scopedAdmin('resetBudget', 'Set the spending of one budget in its current period to 0', {
  ...changes,
  body: z.strictObject({ ...subject, ...period }),
  example: { user_path: '/team/alpha', period: 'monthly' },
  response,
  errors: [404],
});

const resetBudgets = resetRoute('resetBudgets', 'Set the spending of all budgets in their current periods to 0');

export function registerBudgets(admin: Routes, options: BudgetsOptions): void {
  const { log, asOf, keys, now } = options;

  /** @throws Refusal 503 while budgets are off */
  const books = (): BudgetBooks => {
    if (options.budgets !== undefined) return options.budgets;
    throw refusals.featureUnavailable(
      'Budgets are switched off. They require BUDGETS_ENABLED=true and USAGE_ENABLED=true.',
    );
  };

  /** The budgets now, or as of the given moment, without their spending. */
  async function budgetsAt(given: string | undefined) {
    const moment = await asOf.moment(given);
    const figures = books();
    const time = now();
    if (moment === undefined) return { state: figures.state, figures, at: time, time };
    const { at } = moment;
    return { state: await asOf.fold(budgetsView, moment), figures: unknownFigures, at, time, stateAt: at };
  }

  async function list(request: FastifyRequest, given?: string) {
    const { state, figures, at, time, stateAt } = await budgetsAt(given);
    return {
      budgets: budgetRows(state, { figures, at, scope: scopeOf(request) }),
      server_time: timeText(time),
      ...(stateAt === undefined ? {} : { state_at: timeText(stateAt) }),
    };
  }

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

  /** The budget in an address: with `?scope=label` the first segment is a label. */
  const named = (request: FastifyRequest, { user_path, period }: Named, scope: string | undefined) => ({
    of: subjectIn(request, subjectOfPath(user_path, scope), scopes),
    periodSeconds: periodIn({ period }, budgetPeriod),
  });

  /** The budget in a body. */
  const keyed = (request: FastifyRequest, input: z.output<typeof budgetName>) => ({
    of: subjectIn(request, input, scopes),
    periodSeconds: periodIn(input.budget_key, budgetPeriod, 'budget_key.'),
  });

  async function save({ of, periodSeconds }: Budget, usd: Amount, request: FastifyRequest, reply: FastifyReply) {
    const nano = nanoIn(usd);
    books();
    const command = { do: 'set', of, periodSeconds, amount: nano, ...byOf(request, of) } as const;
    sendETag(reply, await execute(of, command, request));
    return list(request);
  }

  async function change(kind: 'remove' | 'reset', { of, periodSeconds }: Budget, request: FastifyRequest) {
    books();
    await execute(of, { do: kind, of, periodSeconds, ...byOf(request, of) }, request);
    return list(request);
  }

  admin.get('/budgets', listBudgets, async (request) => list(request, request.query.as_of));

  admin.get('/budgets/:user_path/:period', getBudget, async (request, reply) => {
    const { of, periodSeconds } = named(request, request.params, request.query.scope);
    const { state, figures, at } = await budgetsAt(request.query.as_of);
    const row = oneBudget({ ...of, periodSeconds }, state, figures, at);
    if (row === undefined) throw refusals.notFound('budget', `${of.subject} ${request.params.period}`);
    sendETag(reply, row.revision ?? 'noStream');
    return row;
  });

  admin.put('/budgets', saveBudget, async (request, reply) =>
    save(keyed(request, request.body), request.body.amount, request, reply),
  );

  admin.delete('/budgets', deleteBudget, async (request) => change('remove', keyed(request, request.body), request));

  admin.put('/budgets/:user_path/:period', saveBudgetOfPath, async (request, reply) =>
    save(named(request, request.params, request.query.scope), request.body.amount, request, reply),
  );

  admin.delete('/budgets/:user_path/:period', deleteBudgetOfPath, async (request) =>
    change('remove', named(request, request.params, request.query.scope), request),
  );

  admin.post('/budgets/reset-one', resetBudget, async (request) => {
    const of = subjectIn(request, request.body, scopes);
    return change('reset', { of, periodSeconds: periodIn(request.body, budgetPeriod) }, request);
  });

  admin.post('/budgets/reset', resetBudgets, async (request) => {
    confirmed(request.body);
    const { state, whenProcessed } = books();
    const position = await resetAllBudgets(state.rules.values(), eventContextOf(request), log);
    if (position !== undefined) await whenProcessed(position);
    return { status: 'ok' };
  });

  registerBudgetSettings(admin, { log, books, now });
}

type Amount = z.output<typeof amount>;
type Named = z.output<typeof params>;

interface Budget {
  readonly of: BudgetSubject;
  readonly periodSeconds: number;
}

/** Nano-dollars. @throws Refusal 400 */
function nanoIn(usd: Amount): number {
  const nano = usd === null || usd === undefined ? undefined : nanoOf(usd);
  if (nano !== undefined) return nano;
  throw refusals.invalidRequest(`'amount' must be US dollars, more than 0 and at most ${MOST_USD}.`, 'amount');
}
