/** A time limit and the setting that defines it, for the error of a call that exceeds it. */
export interface TimeLimit {
  readonly ms: number;
  /** The variable or the path in chancery.yaml. */
  readonly setting: string;
}
