/** How an engine is reached: its address, and the settings that replace or complete those in the address. */
export interface LogEngineAccess {
  readonly url: string;
  /** Both are given, or neither; they go before those in the address. */
  readonly user?: string | undefined;
  readonly password?: string | undefined;
  /** Of Kafka; `plain` when undefined. */
  readonly saslMechanism?: 'plain' | 'scram-sha-256' | 'scram-sha-512' | undefined;
  /** Undefined: as the address says. */
  readonly tls?: boolean | undefined;
  /** Text of PEM files: the authority that signed the engine's certificate; certificate and key of the client. */
  readonly ca?: string | undefined;
  readonly cert?: string | undefined;
  readonly key?: string | undefined;
}
