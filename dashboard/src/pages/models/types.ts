/**
 * Rows of the admin API, as far as this page reads them. Written out, because functions of them are tested together with
 * the gateway, where the generated types of the dashboard are not known.
 */

export interface VirtualTarget {
  readonly provider?: string | undefined;
  readonly model: string;
  readonly weight?: number | undefined;
}

/** A row of `GET /admin/models`. */
export interface ModelRow {
  readonly selector: string;
  readonly provider_name: string;
  readonly provider_type: string;
  readonly model: { readonly id: string; readonly metadata?: Readonly<Record<string, unknown>> | undefined };
  readonly category?: string | undefined;
  readonly price?:
    | { readonly source: string; readonly rates: Readonly<Record<string, number>>; readonly has_tiers: boolean }
    | undefined;
  readonly access: {
    readonly default_enabled: boolean;
    readonly effective_enabled: boolean;
    readonly user_paths?: readonly string[] | undefined;
    readonly override?: { readonly selector: string; readonly enabled: boolean } | undefined;
  };
}

/** A row of `GET /admin/virtual-models`. */
export interface VirtualModelRow {
  readonly source: string;
  readonly kind: 'redirect' | 'policy';
  readonly targets?: readonly VirtualTarget[] | undefined;
  readonly strategy?: string | undefined;
  readonly strategy_plugin?: string | undefined;
  readonly strategy_config?: Readonly<Record<string, unknown>> | undefined;
  readonly strategy_problem?: string | undefined;
  readonly session_affinity?: boolean | undefined;
  readonly failover?:
    | boolean
    | {
        readonly enabled: boolean;
        readonly statuses?: readonly number[] | undefined;
        readonly phrases?: readonly string[] | undefined;
      }
    | undefined;
  readonly valid: boolean;
  readonly user_paths: readonly string[];
  readonly description?: string | undefined;
  readonly enabled: boolean;
  readonly managed: boolean;
  readonly revision?: string | undefined;
}

/** A provider of `GET /admin/providers/status`. */
export interface ProviderStatus {
  readonly name: string;
  readonly type: string;
  readonly status: 'healthy' | 'degraded' | 'unhealthy';
  readonly status_label: string;
  readonly status_reason: string;
  readonly last_error?: string | undefined;
  readonly config: { readonly base_url?: string | undefined };
  readonly runtime: {
    readonly discovered_model_count: number;
    readonly last_model_fetch_success_at?: string | undefined;
    readonly circuit_breaker?: 'closed' | 'open' | 'half_open' | undefined;
  };
}

/** A row of `GET /admin/provider-credentials`. */
export interface Credential {
  /** The settings of the type. */
  readonly [setting: string]: unknown;
  readonly name: string;
  readonly type: string;
  readonly api_keys?: readonly string[] | undefined;
  readonly base_url?: string | undefined;
  readonly enabled: boolean;
  readonly managed: boolean;
  readonly problem?: string | undefined;
  readonly updated_at?: string | undefined;
  readonly revision?: string | undefined;
}

/** A row of `GET /admin/provider-credentials/types`. */
export interface CredentialType {
  readonly type: string;
  readonly default_base_url?: string | undefined;
  readonly fields: readonly {
    readonly name: string;
    readonly required: boolean;
    readonly advanced: boolean;
    readonly options?: readonly string[] | undefined;
  }[];
}
