/**
 * What the gateway takes from the head of a request: its id, its labels and its session, and the parts that may be
 * recorded. Appends cannot be undone, so credentials are removed before.
 */
import { randomUUID } from 'node:crypto';
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import { isCredentialHeader, isCredentialParameter } from '../commands/header-names.ts';
import type { CallerKey } from '../commands/model-request/model-request.ts';
import { checkedRules, type TaggingRule } from '../commands/tagging/tagging.ts';

const ACCEPTED = /^[\x21-\x7e]{1,200}$/;

/** The client's `X-Request-ID` when it is valid, else a new one. The answer carries it in both cases. */
export function requestIdOf(request: Pick<IncomingMessage, 'headers'>): string {
  const given = request.headers['x-request-id'];
  return typeof given === 'string' && ACCEPTED.test(given) ? given : randomUUID();
}

/** The beginning of a query parameter, also in a query separated by semicolons, or after a `#`. */
const PARAMETER = /[?&;#]([^?&;#=]+)=/g;
const END_OF_VALUE = /[&#]/g;

const REDACTED = '[REDACTED]';

export function redactHeaders(headers: IncomingHttpHeaders): Record<string, string> {
  const kept: Record<string, string> = {};
  for (const name in headers) {
    const value = headers[name];
    if (value === undefined) continue;
    // A value may be a URL, for example in `referer`.
    if (isCredentialHeader(name)) kept[name] = REDACTED;
    else kept[name] = redactUrl(typeof value === 'string' ? value : value.join(', '));
  }
  return kept;
}

/** The same URL with the values of credential parameters replaced. */
export function redactUrl(url: string): string {
  if (!url.includes('?') && !url.includes('#')) return url;
  let kept = '';
  let from = 0;
  for (const { 0: beginning, 1: name = '', index } of url.matchAll(PARAMETER)) {
    if (index < from || !isCredentialParameter(name)) continue;
    const valueAt = index + beginning.length;
    kept += url.slice(from, valueAt) + REDACTED;
    END_OF_VALUE.lastIndex = valueAt;
    from = END_OF_VALUE.exec(url)?.index ?? url.length;
  }
  return kept + url.slice(from);
}

// Labels of a request: those of its key, and those from its headers by the tagging rules, without duplicates. Without
// rules and key labels this costs two checks.

/** Labels beyond these limits are dropped; the request is not refused. */
const MAX_LABELS = 64;
const MAX_LABEL_LENGTH = 128;

export interface RequestTags {
  /** Undefined when there are none. */
  labelsOf(headers: IncomingHttpHeaders, key: CallerKey | undefined): readonly string[] | undefined;
  /** Whether a header is not forwarded to providers. */
  isRemoved(header: string): boolean;
}

export const noTags: RequestTags = { labelsOf: (_headers, key) => labelsOfKey(key), isRemoved: () => false };

/**
 * @param managed the rules of the configuration
 * @param set the rules that administrators set; a new array after every change
 * @throws Error for an invalid rule of the configuration
 */
export function createRequestTags(managed: readonly TaggingRule[], set: () => readonly TaggingRule[]): RequestTags {
  const refused = checkedRules(managed, new Set());
  if (refused !== undefined) throw new Error(`tagging.headers: ${refused.message}`);
  let seen = set();
  let rules = inForce(managed, seen);
  const current = (): readonly TaggingRule[] => {
    const now = set();
    if (now !== seen) {
      seen = now;
      rules = inForce(managed, seen);
    }
    return rules;
  };
  return {
    labelsOf(headers, key) {
      const now = current();
      if (now.length === 0) return labelsOfKey(key);
      let labels: Set<string> | undefined;
      for (const rule of now) {
        const value = headers[rule.header];
        if (value === undefined) continue;
        labels ??= new Set(key?.labels);
        addLabels(labels, typeof value === 'string' ? value : value.join(rule.delimiter), rule);
      }
      return labels === undefined || labels.size === 0 ? labelsOfKey(key) : [...labels];
    },
    isRemoved: (header) => current().some((rule) => rule.doNotPass && rule.header === header),
  };
}

/**
 * For the same header, a rule of the configuration wins. A rule may have been recorded before its header was known to
 * hold credentials: it creates no labels, and the header is not forwarded to providers in any case.
 */
function inForce(managed: readonly TaggingRule[], set: readonly TaggingRule[]): readonly TaggingRule[] {
  const own = set.filter(({ header }) => !isCredentialHeader(header));
  return [...managed, ...own.filter(({ header }) => !managed.some((rule) => rule.header === header))];
}

function labelsOfKey(key: CallerKey | undefined): readonly string[] | undefined {
  return key === undefined || key.labels.length === 0 ? undefined : key.labels;
}

function addLabels(labels: Set<string>, value: string, { prefix, delimiter }: TaggingRule): void {
  for (const part of value.split(delimiter)) {
    if (labels.size >= MAX_LABELS) return;
    const whole = part.trim();
    const label = (prefix !== '' && whole.startsWith(prefix) ? whole.slice(prefix.length) : whole).trim();
    if (label !== '' && label.length <= MAX_LABEL_LENGTH) labels.add(label);
  }
}
