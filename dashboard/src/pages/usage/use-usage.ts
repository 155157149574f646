/** The rows of the page: of the range and of the time before it, by day and by the chosen grouping. */
import type { Answer } from '../../api/client.ts';
import { type Loaded, useAnswer } from '../../api/use-answer.ts';
import { dayText } from '../../format/zone-days.ts';
import { timeZone } from '../../settings/time-zone.ts';
import type { Instants } from './previous-range.ts';
import type { Grouping, UsageAddress, UsageFilter } from './usage-address.ts';
import { daysBetween, grouped, mondayOf, type NamedUsage, noUsage, type ReportedUsage, usageOf } from './usage-rows.ts';

export interface UsageRow extends NamedUsage {
  readonly title: string;
  /** Restricts the page, and the audit log, to the row; undefined when no filter finds it. */
  readonly filter?: UsageFilter | undefined;
  /** Of a day or a week. */
  readonly day?: string;
}

type DayRows = Answer<'/admin/usage/daily'>;

/** Every day of the range up to today, also without usage. */
export function daysOf(rows: DayRows, { from, to }: Instants, now: number): UsageRow[] {
  const zone = timeZone.value;
  const known = new Map(rows.map((row) => [row.date, row]));
  const last = Math.min(Date.parse(to) - 1, now);
  return daysBetween(dayText(Date.parse(from), zone), dayText(last, zone)).map((day) => {
    const row = known.get(day);
    return { key: day, title: day, day, usage: row === undefined ? noUsage : usageOf(row) };
  });
}

export function weeksOf(days: readonly UsageRow[]): UsageRow[] {
  return grouped(days.map((row) => ({ ...row, key: mondayOf(row.key) })));
}

export interface GroupedUsage {
  readonly loaded: Loaded<unknown>;
  readonly rows: readonly UsageRow[] | undefined;
  /** Of a list with pages: the number of all rows. */
  readonly total: number | undefined;
}

const reports = {
  model: '/admin/usage/models',
  provider: '/admin/usage/models',
  path: '/admin/usage/user-paths',
  label: '/admin/usage/labels',
  key: '/admin/usage/keys',
  session: '/admin/usage/sessions',
} as const;

/** The report that has the rows of a grouping, and its further parameters. */
export function reportOf(by: Grouping) {
  if (by === 'day') return { path: '/admin/usage/daily', query: { interval: 'daily' } } as const;
  if (by === 'week') return { path: '/admin/usage/daily', query: { interval: 'weekly' } } as const;
  return { path: reports[by], query: {} } as const;
}

/** Rows of a page of sessions. */
export const SESSIONS = 200;

/** Nothing is read for days and weeks: they are made of the days of the page. */
export function useGrouped({ by, filter, offset }: UsageAddress, { from, to }: Instants, enabled = true): GroupedUsage {
  const isGrouped = by !== 'day' && by !== 'week';
  const path = isGrouped ? reports[by] : reports.model;
  const page = by === 'session' ? { limit: SESSIONS, offset } : { cache_mode: 'all' };
  const loaded = useAnswer(path, { from, to, ...filter, ...page }, { enabled: isGrouped && enabled });
  const { data } = loaded;
  if (data === undefined || !isGrouped) return { loaded, rows: undefined, total: undefined };
  const isList = Array.isArray(data);
  const found = (isList ? data : data.entries) as readonly (ReportedUsage & Members)[];
  const rows = grouped(found.map((row) => ({ ...named(by, row), usage: usageOf(row) })));
  return { loaded, rows, total: isList ? undefined : data.total };
}

/** Of some report. */
interface Members {
  readonly model?: string;
  readonly provider_name?: string;
  readonly user_path?: string;
  readonly label?: string;
  readonly session_id?: string;
  readonly auth_key_id?: string | null;
  readonly caller?: string;
  readonly name?: string | null;
}

function named(by: Exclude<Grouping, 'day' | 'week'>, row: Members): Omit<UsageRow, 'usage'> {
  const { model = '', provider_name: provider = '', user_path = '', label = '', session_id = '' } = row;
  if (by === 'model')
    return { key: `${provider}/${model}`, title: `${provider}/${model}`, filter: { provider, model } };
  if (by === 'provider') return { key: provider, title: provider, filter: { provider } };
  if (by === 'path') return { key: user_path, title: user_path, filter: { user_path } };
  if (by === 'label') return { key: label, title: label, filter: { label } };
  if (by === 'session') {
    return { key: `${session_id} ${user_path}`, title: session_id, filter: { session_id, user_path } };
  }
  const { auth_key_id: id, caller, name } = row;
  if (id) return { key: id, title: name ?? id, filter: { auth_key_id: id } };
  return { key: `${caller}`, title: caller === 'master' ? 'Master key' : 'Calls of the gateway' };
}
