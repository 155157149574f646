/** Creates a budget or a rate limit without overwriting one that another administrator created meanwhile. */
import { findRule, isOfSubject, type RuleName } from './rule-name.ts';

export interface NewRule<Row extends RuleName & { readonly revision?: string }> {
  readonly name: RuleName;
  readonly readRules: () => Promise<readonly Row[]>;
  /** Whether a change was refused because of its revision. */
  readonly isConflict: (error: unknown) => boolean;
  /** The error for a rule that exists. */
  readonly existing: () => Error;
  /** The revision of a subject without rules, which had some that were removed. */
  readonly lastRevision: () => Promise<string>;
  /** @param ifMatch the revision of the rules of the subject */
  readonly send: (ifMatch: string) => Promise<unknown>;
}

/** @throws the error for a rule that exists, and those of `send` */
export async function saveNewRule<Row extends RuleName & { readonly revision?: string }>({
  name,
  readRules,
  isConflict,
  existing,
  lastRevision,
  send,
}: NewRule<Row>): Promise<unknown> {
  const before = await readRules();
  if (findRule(before, name) !== undefined) throw existing();
  const revision = revisionOf(before, name);
  try {
    return await send(revision ?? 'none');
  } catch (error) {
    if (revision !== undefined || !isConflict(error)) throw error;
  }
  // The subject had rules that were removed, or has its first one since a moment ago.
  const now = await readRules();
  if (findRule(now, name) !== undefined) throw existing();
  return send(revisionOf(now, name) ?? (await lastRevision()));
}

function revisionOf(rules: readonly (RuleName & { readonly revision?: string })[], name: RuleName) {
  return rules.find((rule) => isOfSubject(rule, name))?.revision;
}
