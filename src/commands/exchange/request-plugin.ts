/** A plugin that reads and changes requests before they are routed. The exchange knows no more of plugins. */

export interface PluginRequest {
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

export interface PluginRequestContext {
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
