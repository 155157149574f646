/**
 * A plugin that reads and changes requests before they are routed, and the changes that are recorded. The exchange knows
 * no more of plugins.
 */
import type { z } from 'zod';
import type { pluginApplied } from '../../events/catalogue/gateway.ts';
import type { ParsedRequest } from '../model-request/model-request.ts';

interface PluginRequest {
  /** For example `/v1/chat/completions`. */
  readonly endpoint: string;
  readonly method: string;
  /** Path and query, credentials redacted. */
  readonly path: string;
  /** Lower-case names, credentials redacted. */
  readonly headers: Readonly<Record<string, string>>;
  /** Empty when the request names none. */
  readonly model: string;
  readonly provider: string | undefined;
  readonly stream: boolean;
  readonly labels: readonly string[];
  readonly clientIp: string | undefined;
}

interface PluginRequestContext {
  readonly requestId: string;
  /** Undefined where a plugin is checked. */
  readonly exchangeId?: string | undefined;
  readonly userPath: string;
  readonly signal: AbortSignal;
}

/** Validated. */
export interface PluginRequestChanges {
  /** Labels to add. */
  readonly labels?: readonly string[] | undefined;
  /** Lower-case names; no credentials. */
  readonly setHeaders?: Readonly<Record<string, string>> | undefined;
  readonly removeHeaders?: readonly string[] | undefined;
  readonly model?: string | undefined;
  readonly provider?: string | undefined;
  readonly refuse?: { readonly status: number; readonly code: string; readonly message: string } | undefined;
}

export interface RequestPlugin {
  readonly name: string;
  /** SHA-256 of its files. */
  readonly digest: string;
  /** Whether a request fails with the plugin. */
  readonly failMode: 'closed' | 'open';
  /** Undefined: no change. Rejects when it failed, with a message that holds no text of the request. */
  run(request: PluginRequest, context: PluginRequestContext): Promise<PluginRequestChanges | undefined>;
}

// What plugins changed in a request, applied the same way when it arrives and when it is resumed from the record.

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
