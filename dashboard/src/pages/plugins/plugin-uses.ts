/** Where plugin types are used. */

export interface PluginUses {
  /** Names of guardrails of the type. */
  readonly guardrails: readonly string[];
  /** Active workflows with a step of such a guardrail. */
  readonly workflows: readonly string[];
  /** Virtual models whose targets it selects. */
  readonly virtualModels: readonly string[];
}

interface Definitions {
  readonly guardrails: readonly { readonly name: string; readonly type: string }[];
  readonly workflows: readonly {
    readonly name: string;
    readonly active: boolean;
    readonly workflow_payload: {
      readonly guardrails?: readonly { readonly ref: string }[];
      readonly steps?: readonly { readonly ref: string }[];
    };
  }[];
  readonly virtualModels: readonly { readonly source: string; readonly strategy_plugin?: string }[];
}

export function usesOf(plugin: string, { guardrails, workflows, virtualModels }: Definitions): PluginUses {
  const own = guardrails.filter(({ type }) => type === plugin).map(({ name }) => name);
  const isUsedBy = ({ steps = [], guardrails: refs = [] }: Definitions['workflows'][number]['workflow_payload']) =>
    [...steps, ...refs].some(({ ref }) => own.includes(ref));
  return {
    guardrails: own,
    workflows: workflows.filter((one) => one.active && isUsedBy(one.workflow_payload)).map(({ name }) => name),
    virtualModels: virtualModels
      .filter(({ strategy_plugin: strategy }) => strategy === plugin)
      .map(({ source }) => source),
  };
}
