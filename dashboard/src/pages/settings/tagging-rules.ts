/** The headers that become labels, in the answer of the gateway and in the form. */

/** A rule as the gateway returns it. */
export interface Rule {
  readonly header: string;
  readonly prefix?: string | undefined;
  readonly delimiter: string;
  readonly do_not_pass: boolean;
  /** Part of the configuration. */
  readonly managed?: true | undefined;
}

/** A rule in the form: all members are there. */
export interface RuleInput {
  readonly header: string;
  readonly prefix: string;
  readonly delimiter: string;
  readonly doNotPass: boolean;
}

export const newRule: RuleInput = { header: '', prefix: '', delimiter: '', doNotPass: false };

/** Those that can be changed here: the others are part of the configuration. */
export function inputsOf(rules: readonly Rule[]): readonly RuleInput[] {
  return rules
    .filter(({ managed }) => managed !== true)
    .map(({ header, prefix = '', delimiter, do_not_pass: doNotPass }) => ({ header, prefix, delimiter, doNotPass }));
}

/** As the gateway takes them: what is empty is left out, and so is a rule without a header. */
export function rulesOf(inputs: readonly RuleInput[]) {
  return inputs
    .filter(({ header }) => header.trim() !== '')
    .map(({ header, prefix, delimiter, doNotPass }) => ({
      header: header.trim(),
      ...(prefix !== '' && { prefix }),
      ...(delimiter !== '' && { delimiter }),
      do_not_pass: doNotPass,
    }));
}
