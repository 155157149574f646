/** A time, and the setting that it comes from, for the error of a call that takes longer. */
export interface TimeLimit {
  readonly ms: number;
  /** The variable or the path in chancery.yaml. */
  readonly setting: string;
}
