"""Which names of tools are those of tools that ask a person."""

import pytest

from historyapp.core import person_tools
from historyapp.core.person_tools import MAX_NAMES, asking_names, asks_person, waits_for_person

ASKING = """
    AskUserQuestion ask_user_question vscode_askQuestions request_user_input question ask_followup_question
    interactive_feedback mcp__interactive-feedback__interactive_feedback get_feedback_from_user chat_with_user
    confirm_with_user wait_for_user_reply contact_human request_human_review human_in_the_loop ask_a_question
    ask_for_confirmation ask_multiple_choice elicit humanFeedback waitForUser getUserInput
    get_user_feedback collect_human_approval user_input_tool mcp__user-feedback__collect
    wait_for_user_to_confirm request_user_confirmation contact_person
    ExitPlanMode exit_plan_mode plan_exit
"""
OTHERS = """
    bash task_user_list create_user get_user list_users update_user_settings ask_model search_persons review
    request wait_for_process read_feedback confirm chat_completion contact_list solicitation
    get_user_reviews list_user_responses save_user_answers validate_user_answer create_user_response
    delete_user_review store_user_feedback fetch_user_inputs confirm_user_email request_user_data
    review_user_account contact_person_lookup user_response_time mcp__crm__update_user_review
"""


@pytest.mark.parametrize("name", ASKING.split())
def test_a_tool_that_asks_a_person_is_recognised_by_the_words_of_its_name(name: str) -> None:
    assert asks_person(name)
    assert waits_for_person(name)


@pytest.mark.parametrize("name", OTHERS.split())
def test_other_tools_about_users_do_not_ask_a_person(name: str) -> None:
    assert not asks_person(name)
    assert not waits_for_person(name)


def test_a_servers_tool_waits_for_a_person_only_if_its_name_says_so() -> None:
    """Calls of 90 seconds that ask a model counted as waits for a person, and not as slow."""
    names = ("mcp__deepwiki__ask_question", "mcp__notebooklm__ask_question", "mcp__aws__ask", "docs.question")
    assert not any(map(waits_for_person, names))
    assert asking_names(names) == set(names), "when in doubt, a share link hides the result"
    assert all(
        map(waits_for_person, ("mcp__human__ask", "mcp__x__ask_user_question", "mcp__x__ExitPlanMode"))
    )


def test_a_tool_that_may_show_a_plan_to_a_person_hides_its_result_and_waits_for_nobody() -> None:
    assert asks_person("submit_plan")
    assert not waits_for_person("submit_plan")


def test_a_name_that_is_too_long_to_be_read_counts_as_one_that_asks() -> None:
    assert not asks_person("a" * 200)
    assert asks_person("a" * 201)


def test_each_name_of_a_step_is_read_once_and_only_a_few_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    read = list[str]()
    is_answer = person_tools._is_answer

    def count(words: str) -> bool:
        read.append(words)
        return is_answer(words)

    monkeypatch.setattr(person_tools, "_is_answer", count)
    assert asking_names(["bash", "question"] * 1_000) == {"question"}
    assert sorted(read) == ["bash", "question"]
    many = {f"tool{number}" for number in range(MAX_NAMES + 1)}
    assert asking_names(many) == many
    assert len(read) == 2
