"use client";
import "conclave/element";

export const Chat = () => <conclave-chat />;
