/** Which answers a purge removes. */

export interface PurgeFields {
  readonly userPath: string;
  readonly model: string;
  readonly provider: string;
}

export interface PurgeBody {
  readonly user_path?: string;
  readonly model?: string;
  readonly provider?: string;
}

/** Empty fields select nothing. */
export function purgeBody({ userPath, model, provider }: PurgeFields): PurgeBody {
  const [path, ofModel, ofProvider] = [userPath.trim(), model.trim(), provider.trim()];
  return {
    ...(path === '' ? {} : { user_path: path }),
    ...(ofModel === '' ? {} : { model: ofModel }),
    ...(ofProvider === '' ? {} : { provider: ofProvider }),
  };
}

/** In words: `answers of the provider openai with the model gpt-5 to requests at /team and below it`. */
export function purgedAnswers({ user_path, model, provider }: PurgeBody): string {
  return [
    'answers',
    ...(provider === undefined ? [] : [`of the provider ${provider}`]),
    ...(model === undefined ? [] : [`with the model ${model}`]),
    ...(user_path === undefined ? [] : [`to requests at ${user_path} and below it`]),
  ].join(' ');
}
