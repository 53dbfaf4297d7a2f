/**
 * `<conclave-chat>` as a component of React. Its handlers are attached by the component itself:
 * React attaches none for events of an element's own while it takes over a page that was rendered
 * on a server.
 */
import {
  createElement,
  useEffect,
  useRef,
  type DetailedHTMLProps,
  type HTMLAttributes,
  type ReactElement,
} from "react";
import type {
  BackendChoice,
  ConclaveError,
  ConclaveEvent,
  Core,
  EndEvent,
  MemberSource,
  RoundEvent,
  Rule,
  Thinking,
} from "./conclave.ts";
import type { ConclaveChat as ChatElement } from "./element.ts";

/** The attributes of `<conclave-chat>`, beside those of every element. */
export interface ConclaveChatAttributes
  extends DetailedHTMLProps<HTMLAttributes<ChatElement>, ChatElement> {
  /**
   * References of models, parted by spaces, or the address of a list of them; the bundled members
   * if left out.
   */
  members?: string;
  backend?: BackendChoice;
  core?: Core;
  hub?: string;
  rule?: Rule;
  thinking?: Thinking;
}

/** What {@link ConclaveChat} takes: the element's attributes, and who hears its events. */
export interface ConclaveChatProps
  extends Omit<ConclaveChatAttributes, "members" | "onProgress" | "onError" | "ref"> {
  /**
   * As the attribute, or a list as `Conclave.load` takes it. Another list at each render would load
   * the members anew at each question: keep one.
   */
  members?: string | MemberSource[];
  /** Hears every event of an answer. */
  onEvent?: (event: ConclaveEvent) => void;
  onRound?: (event: RoundEvent) => void;
  onEnd?: (event: EndEvent) => void;
  /** Hears which share of the loading is done, from 0 to 1. */
  onProgress?: (progress: { share: number; loaded: number; total: number }) => void;
  onError?: (error: ConclaveError) => void;
}

/** `<conclave-chat>`; the element itself comes with `conclave/element`. */
export function ConclaveChat({
  members,
  onEvent,
  onRound,
  onEnd,
  onProgress,
  onError,
  ...attributes
}: ConclaveChatProps): ReactElement {
  const element = useRef<ChatElement>(null);
  const heard = {
    "conclave-event": onEvent,
    round: onRound,
    end: onEnd,
    progress: onProgress,
    error: onError,
  };
  const handlers = useRef(heard);
  useEffect(() => {
    handlers.current = heard;
  });
  useEffect(() => {
    const { current } = element;
    if (!current) return;
    const tell = ({ type, detail }: CustomEvent<never>): void =>
      handlers.current[type as keyof typeof heard]?.(detail);
    const names = Object.keys(handlers.current);
    for (const name of names) current.addEventListener(name, tell as (event: Event) => void);
    return () => {
      for (const name of names) current.removeEventListener(name, tell as (event: Event) => void);
    };
  }, []);
  useEffect(() => {
    if (typeof members !== "string" && element.current) element.current.members = members;
  }, [members]);
  return createElement("conclave-chat", {
    ...attributes,
    ...(typeof members === "string" && { members }),
    ref: element,
  });
}

declare module "react" {
  namespace JSX {
    interface IntrinsicElements {
      "conclave-chat": ConclaveChatAttributes;
    }
  }
}
