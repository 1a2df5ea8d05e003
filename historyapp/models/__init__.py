"""The tables. Models and their querysets read; ``historyapp.services`` writes."""

from historyapp.models.annotations import Annotation
from historyapp.models.audit import AuditRecord
from historyapp.models.bulk_actions import BulkAction, BulkItem
from historyapp.models.changes import Change
from historyapp.models.compressions import CompressionItem, CompressionRun
from historyapp.models.day_figures import CountedSession, FiguresProgress, ProjectDay, SessionDay
from historyapp.models.entries import Entry, RetentionPass
from historyapp.models.episodes import Episode
from historyapp.models.evaluations import EvaluatedSession, Evaluation
from historyapp.models.idempotency import IdempotencyKey
from historyapp.models.imports import ImportSource
from historyapp.models.keys import SCOPES, ApiKey, SignInLink
from historyapp.models.notes import StepNote
from historyapp.models.origins import NameIndex, NamePage, NameRun, StepNames
from historyapp.models.outcomes import StaleOutcomes
from historyapp.models.preferences import ListPreference
from historyapp.models.projects import Membership, Project
from historyapp.models.queue import QueuedMessage
from historyapp.models.releases import Release
from historyapp.models.run_figures import FiguresCheckpoint
from historyapp.models.saved_searches import SavedSearch
from historyapp.models.search_steps import SearchProgress, SearchStep
from historyapp.models.sessions import Session
from historyapp.models.shares import ShareLink
from historyapp.models.snapshots import Snapshot, TokenCorrection
from historyapp.models.spending import SpendingCounter, SpendingReservation
from historyapp.models.summaries import Summary
from historyapp.models.text_blocks import TextBlock
from historyapp.models.totals import Total
from historyapp.models.webhooks import Webhook, WebhookDelivery
from historyapp.models.what_ifs import WhatIf
from historyapp.models.workers import Worker

__all__ = [
    "SCOPES",
    "Annotation",
    "ApiKey",
    "AuditRecord",
    "BulkAction",
    "BulkItem",
    "Change",
    "CompressionItem",
    "CompressionRun",
    "CountedSession",
    "Entry",
    "Episode",
    "EvaluatedSession",
    "Evaluation",
    "FiguresCheckpoint",
    "FiguresProgress",
    "IdempotencyKey",
    "ImportSource",
    "ListPreference",
    "Membership",
    "NameIndex",
    "NamePage",
    "NameRun",
    "Project",
    "ProjectDay",
    "QueuedMessage",
    "Release",
    "RetentionPass",
    "SavedSearch",
    "SearchProgress",
    "SearchStep",
    "Session",
    "SessionDay",
    "ShareLink",
    "SignInLink",
    "Snapshot",
    "SpendingCounter",
    "SpendingReservation",
    "StaleOutcomes",
    "StepNames",
    "StepNote",
    "Summary",
    "TextBlock",
    "TokenCorrection",
    "Total",
    "Webhook",
    "WebhookDelivery",
    "WhatIf",
    "Worker",
]
