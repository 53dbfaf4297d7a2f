/** Types and functions of other files that are part of the library's interface. */
export {
  defaultContextTokens,
  type AddOptions,
  type AskOptions,
  type BeginOptions,
  type KeepOptions,
  type LoadOptions,
  type MeasureOptions,
  type OpenOptions,
} from "./call-options.ts";
export { defaultSampling } from "../protocol/generated-settings.ts";
export type { BackendChoice } from "../protocol/backend.ts";
export type {
  About,
  Adapter,
  Backend,
  Candidate,
  Core,
  Draft,
  ExitSettings,
  FormatInMemory,
  LeaderSettings,
  Memory,
  Message,
  Ranges,
  RemoteAbout,
  Rule,
  Rules,
  Sampling,
  Score,
  SettingRange,
  Settings,
  Thinking,
  VerifiedScore,
} from "../protocol/engine.ts";
export * from "../protocol/errors.ts";
export { remoteAddress, type Capability } from "../protocol/remote.ts";
export { readManifest, sourceOf, type ManifestEntry } from "../store/load.ts";
export type {
  BeginEvent,
  ConclaveEvent,
  DraftEvent,
  EndEvent,
  LeftEvent,
  Measured,
  MemberSource,
  Plan,
  Progress,
  ReadingEvent,
  ReopenedEvent,
  RoundCounters,
  RoundEvent,
  StopReason,
  Stored,
  StoredModel,
  ThinkingEvent,
  ThoughtEvent,
  VoteEvent,
} from "../protocol/messages.ts";
export {
  parseReference,
  referenceName,
  referenceText,
  type Reference,
} from "../store/reference.ts";
