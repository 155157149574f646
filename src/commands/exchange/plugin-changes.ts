/** What plugins changed in a request, applied the same way when it arrives and when it is resumed from the record. */
import type { z } from 'zod';
import type { pluginApplied } from '../../events/catalogue/plugin.ts';
import type { ParsedRequest } from '../model-request/parsed-request.ts';

/** One plugin that changed or refused the request, or failed. */
export type AppliedPlugin = z.infer<typeof pluginApplied.data>;

/** The client's own values, for the record. */
export interface BeforePlugins {
  readonly headers: Record<string, string>;
  readonly model: string;
  readonly applied: readonly AppliedPlugin[];
}

export function changedHeaders(
  given: Readonly<Record<string, string>>,
  { headersSet, headersRemoved = [] }: AppliedPlugin,
): Record<string, string> {
  const headers = { ...given, ...headersSet };
  for (const name of headersRemoved) delete headers[name];
  return headers;
}

export function changedSelector(given: ParsedRequest, { model, provider }: AppliedPlugin): ParsedRequest {
  if (model === undefined && provider === undefined) return given;
  return { ...given, model: model ?? given.model, provider: provider ?? given.provider };
}
