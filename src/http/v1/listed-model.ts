export interface ModelListEntry {
  readonly id: string;
  /** Unix seconds. */
  readonly created: number;
  readonly ownedBy: string;
  readonly metadata?: object;
}
