/** `tag_replace`: replaces `{{chancery.<tag>}}` in requests by facts of the request. */
import { z } from 'zod';
import {
  allowed,
  type EvaluationContext,
  GuardrailConfigError,
  type GuardrailResult,
  type GuardrailType,
} from '../guardrail-type.ts';
import { rolesField, rolesMember } from './type-settings.ts';

const config = z.strictObject({
  roles: rolesMember(['system']),
  timezone: z.string().min(1).max(100).default('UTC'),
});

const tag = /\{\{\s{0,4}chancery\.([a-z_]{1,40})\s{0,4}\}\}/g;
const opening = '{{';

export const tagReplace: GuardrailType<z.infer<typeof config>> = {
  type: 'tag_replace',
  label: 'Tags',
  description:
    'Replaces {{chancery.date}}, time, datetime, weekday, timezone, model, provider, user_path, request_id and labels.',
  phases: ['prompt'],
  mutating: true,
  config,
  defaults: { roles: ['system'], timezone: 'UTC' },
  fields: [
    rolesField(),
    { key: 'timezone', label: 'Time zone', input: 'text', required: false, placeholder: 'Europe/Berlin', scope: '' },
  ],
  summary: ({ roles, timezone }) => `${roles.join(', ')} • ${timezone}`,
  compile({ roles, timezone }) {
    const clock = clockIn(timezone);
    const isRead = new Set(roles);
    return {
      prompt(parts, context): GuardrailResult {
        const texts = new Map<number, string>();
        for (const [index, { role, kind, text }] of parts.entries()) {
          if (kind !== 'text' || !isRead.has(role) || !text.includes(opening)) continue;
          const replaced = text.replace(tag, (whole, name: string) => tagValue(name, context, clock) ?? whole);
          if (replaced !== text) texts.set(index, replaced);
        }
        return { decision: allowed, texts };
      },
    };
  },
};

interface Clock {
  readonly timezone: string;
  parts(now: Date): Readonly<Record<string, string>>;
}

function clockIn(timezone: string): Clock {
  try {
    const format = new Intl.DateTimeFormat('en-GB', {
      timeZone: timezone,
      hourCycle: 'h23',
      year: 'numeric',
      month: '2-digit',
      day: '2-digit',
      hour: '2-digit',
      minute: '2-digit',
      second: '2-digit',
      weekday: 'long',
    });
    return {
      timezone,
      parts: (now) => Object.fromEntries(format.formatToParts(now).map(({ type, value }) => [type, value])),
    };
  } catch {
    throw new GuardrailConfigError(`timezone: '${timezone}' is no time zone of the IANA database`);
  }
}

/** Undefined for an unknown tag, which stays. */
function tagValue(name: string, context: EvaluationContext, { timezone, parts }: Clock): string | undefined {
  if (name === 'model') return context.model;
  if (name === 'provider') return context.provider;
  if (name === 'user_path') return context.userPath;
  if (name === 'request_id') return context.requestId;
  if (name === 'labels') return context.labels.join(', ');
  if (name === 'timezone') return timezone;
  const { year, month, day, hour, minute, second, weekday } = parts(context.now);
  const date = `${year}-${month}-${day}`;
  const time = `${hour}:${minute}:${second}`;
  if (name === 'date') return date;
  if (name === 'time') return time;
  if (name === 'datetime') return `${date} ${time}`;
  return name === 'weekday' ? weekday : undefined;
}
