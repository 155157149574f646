/** The refusal of a request, with the members of the error envelope. A retry of the same request cannot succeed. */
export interface TranslationRefusal {
  readonly status: 400 | 404;
  readonly code: string | null;
  /** Path of the member at fault, for example `input[0].role`. */
  readonly param: string | null;
  readonly message: string;
}

export interface Refused {
  readonly ok: false;
  readonly refusal: TranslationRefusal;
}

export function refuse(code: string | null, param: string | null, message: string, status: 400 | 404 = 400): Refused {
  return { ok: false, refusal: { status, code, param, message } };
}

/** A 400 `missing_required_parameter`. @param param path of the member */
export function refuseMissing(param: string): Refused {
  return refuse('missing_required_parameter', param, `Missing required parameter: '${param}'.`);
}
