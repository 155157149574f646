/** The models that a selector names, as recorded usage names them. */

/** `provider` may be a name or a type. */
export interface SelectedModel {
  readonly provider: string;
  readonly model: string;
}

export interface KnownModels {
  /** Whether a provider of that name or type exists. */
  knows(provider: string): boolean;
  /** The listed model of this selector. */
  find(selector: string): SelectedModel | undefined;
  /** The models behind an alias; undefined when it is not an alias. */
  behind(alias: string): readonly SelectedModel[] | undefined;
}

/**
 * An alias stands for all models that it leads to; `<provider>/<model>` may also name a model that no provider serves
 * any more.
 * @returns undefined for an unknown name without a provider
 */
export function selectedModels(selector: string, known: KnownModels): readonly SelectedModel[] | undefined {
  const behind = known.behind(selector);
  if (behind !== undefined) return behind;
  const slash = selector.indexOf('/');
  const isSplit = slash > 0 && slash < selector.length - 1;
  const written = { provider: selector.slice(0, slash), model: selector.slice(slash + 1) };
  if (isSplit && known.knows(written.provider)) return [written];
  const listed = known.find(selector);
  if (listed !== undefined) return [{ provider: listed.provider, model: listed.model }];
  return isSplit ? [written] : undefined;
}
