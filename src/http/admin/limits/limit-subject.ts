/** Subject and period of a budget or a rate limit in requests to the admin API. */
import type { FastifyRequest } from 'fastify';
import { z } from 'zod';
import { refusals } from '../../../commands/refusal.ts';
import type { UserPath } from '../../../events/event.ts';
import type { LimitSubject } from '../../../projections/limits.ts';
import { textParameter } from '../../api/parameters.ts';
import { optionalUserPath } from '../../request-head.ts';
import { isWithin, pathInScope, scopeOf } from '../admin-scope.ts';

const MAX_SUBJECT_LENGTH = 256;

/** Members of a body: `scope` with `subject`, or `user_path` alone. `subjectIn` checks them. */
export const subjectMembers = (scopes: readonly string[]) => ({
  scope: z.string().optional().meta({ enum: scopes, default: scopes[0], description: 'Kind of the subject' }),
  subject: z.string().optional().describe(`Name in its scope, of at most ${MAX_SUBJECT_LENGTH} characters`),
  user_path: z.string().optional().describe("Instead of `subject`. Default: the root of the caller's scope"),
  per_child: z.boolean().optional().describe('Only `false`: a rule is for a path and all paths below it'),
});

/** Members of a body: a period by its name or by its seconds. `periodIn` checks them. */
export const periodMembers = (names: string) => ({
  period: z
    .union([z.string(), z.number()], { error: 'it must be the name of a period' })
    .optional()
    .describe(`${names}, or seconds`),
  period_seconds: z
    .number({ error: 'it must be a number of seconds' })
    .optional()
    .describe('Instead of `period`')
    .meta({ type: 'integer' }),
});

/** For addresses with a subject in the path: the kind of that subject. */
export const scopeParameter = (scopes: readonly string[]) =>
  textParameter('What the first segment is', { enum: scopes, default: scopes[0] });

export const periodParameter = 'Name of a period, or its seconds';

/** The schema of `ruleMembers` without the scope. */
export const ruleSubject = {
  subject: z.string(),
  user_path: z.string().optional().describe('The subject, when it is a user path'),
  per_child: z.boolean(),
  period_seconds: z.int(),
  period_label: z.string(),
};

/** Members of every rule in an answer of the admin API. */
export const ruleAnswer = {
  ...ruleSubject,
  source: z.enum(['manual', 'config']).describe('`config`: declared in the configuration and read-only here'),
  created_at: z.string(),
  updated_at: z.string(),
  revision: z.string().optional().describe('For `If-Match`'),
};

export interface SubjectInput {
  readonly scope?: string | undefined;
  readonly subject?: string | undefined;
  readonly user_path?: string | undefined;
  readonly per_child?: boolean | undefined;
}

/**
 * The subject of the request; a user path must be in the caller's scope, and defaults to its root.
 * @param scopes the first is the default
 * @throws Refusal 400, or 403 for a subject that the caller does not administer
 */
export function subjectIn<Scope extends string>(
  request: FastifyRequest,
  { scope, subject, user_path, per_child }: SubjectInput,
  scopes: readonly Scope[],
): LimitSubject<Scope> {
  const limitScope = scope === undefined || scope === '' ? scopes[0] : scopes.find((one) => one === scope);
  if (limitScope === undefined) throw refusals.invalidRequest(`'scope' is not one of ${scopes.join(', ')}.`, 'scope');
  if (per_child === true) {
    throw refusals.invalidRequest(
      "'per_child' cannot be honoured: a rule applies to a path and all paths below it.",
      'per_child',
    );
  }
  if (limitScope === 'user_path') return { scope: limitScope, subject: pathOf(request, subject, user_path) };
  if (user_path !== undefined) {
    throw refusals.invalidRequest(`'user_path' cannot be combined with the scope '${limitScope}'.`, 'user_path');
  }
  const own = scopeOf(request);
  if (own !== undefined) throw refusals.userPathOutOfScope(`${limitScope} ${subject ?? ''}`, own, 'scope');
  const name = subject?.trim() ?? '';
  if (name === '') throw refusals.missingParameter('subject');
  if (name.length > MAX_SUBJECT_LENGTH || hasControls(name)) {
    throw refusals.invalidRequest(
      `'subject' must be at most ${MAX_SUBJECT_LENGTH} characters, none of them a control character.`,
      'subject',
    );
  }
  return { scope: limitScope, subject: name };
}

/** The subject in a path segment. @param scope of the query */
export function subjectOfPath(segment: string, scope: string | undefined): SubjectInput {
  return scope === undefined || scope === 'user_path' ? { user_path: segment } : { scope, subject: segment };
}

export type PeriodInput =
  | { readonly period?: string | number | undefined; readonly period_seconds?: number | undefined }
  | undefined;

/** @throws Refusal 400 unless exactly one of the two is present and is a valid period */
export function periodIn(periodInput: PeriodInput, parse: (text: string) => number | undefined, prefix = ''): number {
  const { period, period_seconds } = periodInput ?? {};
  const param = `${prefix}${period === undefined ? 'period_seconds' : 'period'}`;
  if (period !== undefined && period_seconds !== undefined) {
    throw refusals.invalidRequest("'period' and 'period_seconds' mean the same: send only one of them.", param);
  }
  const given = period ?? period_seconds;
  if (given === undefined) throw refusals.missingParameter(`${prefix}period`);
  const seconds = parse(String(given));
  if (seconds === undefined) throw refusals.invalidRequest(`'${given}' is not a period.`, param);
  return seconds;
}

function pathOf(request: FastifyRequest, subject: string | undefined, userPath: string | undefined): string {
  const name = userPath === undefined ? 'subject' : 'user_path';
  const given = userPath ?? subject;
  if (userPath !== undefined && subject !== undefined) {
    throw refusals.invalidRequest("'subject' and 'user_path' mean the same: send only one of them.", 'subject');
  }
  const path = pathInScope(scopeOf(request), optionalUserPath(given, name), name);
  if (path === undefined) throw refusals.missingParameter('user_path');
  return path;
}

/** A budget or a rate limit. */
interface Rule {
  readonly scope: string;
  readonly subject: string;
  readonly periodSeconds: number;
}

/** The first members of every rule in an answer: its subject and its period. */
export function ruleMembers({ scope, subject, periodSeconds }: Rule, label: (periodSeconds: number) => string) {
  return {
    scope,
    subject,
    ...(scope === 'user_path' ? { user_path: subject } : {}),
    per_child: false,
    period_seconds: periodSeconds,
    period_label: label(periodSeconds),
  };
}

/** Whether an administrator of the scope may see the rule: only rules for a path within it. */
export function isSubjectWithin(of: UserPath | undefined, rule: Pick<Rule, 'scope' | 'subject'>): boolean {
  return of === undefined || (rule.scope === 'user_path' && isWithin(of, rule.subject as UserPath));
}

function hasControls(text: string): boolean {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
  return /[\u0000-\u001f\u007f]/.test(text);
}
