export interface ListedModel {
  readonly id: string;
  /** Unix seconds. */
  readonly created: number;
  readonly ownedBy: string;
  readonly metadata?: object;
}
